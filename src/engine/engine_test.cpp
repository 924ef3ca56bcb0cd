#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/scheduler_drive.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::int32_t kVocab = 997;

// What one request received; wait() returns at its end.
class Inbox final : public RequestSink {
 public:
  void on_output(const RequestOutput& output) override {
    const std::lock_guard lock(mutex_);
    received_.add(output);
    times_ = output.times;
    changed_.notify_all();
  }
  Received wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return received_.finished.has_value(); });
    return received_;
  }
  void wait_for_tokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return received_.tokens.size() >= count; });
  }
  bool is_finished() {
    const std::lock_guard lock(mutex_);
    return received_.finished.has_value();
  }
  RequestTimes times() {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Received received_;
  RequestTimes times_;
};

// Lets the runner pass only as many steps as were granted.
class Gate {
 public:
  void grant(int steps) {
    const std::lock_guard lock(mutex_);
    granted_ += steps;
    changed_.notify_all();
  }
  void open() { grant(1 << 30); }
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return granted_ > 0; });
    --granted_;
  }
  // Until the engine stands at the gate for the n-th time.
  void wait_for_arrival(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= n; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int granted_ = 0;
  int arrived_ = 0;
};

EngineOptions engine_options(std::int32_t kv_blocks = 200) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 8;
  options.scheduler.max_num_batched_tokens = 32;
  options.scheduler.max_model_len = 400;
  options.scheduler.block_size = 4;
  options.scheduler.kv_blocks = kv_blocks;
  options.scheduler.vocab = kVocab;
  return options;
}

std::unique_ptr<Engine> start(EngineOptions options, std::function<void(const StepPlan&)> before_step = {}) {
  auto runner = std::make_unique<FakeRunner>(runner_options(options.scheduler));
  runner->before_step = std::move(before_step);
  auto engine = Engine::create(std::move(options), std::move(runner));
  EXPECT_TRUE(engine.ok());
  return std::move(*engine);
}

GenerationRequest numbered(std::int32_t prompt, std::int32_t max_tokens, std::int32_t seed) {
  return request_of(prompt_of(prompt, seed, kVocab), max_tokens);
}

void expect_balanced(const EngineStats& stats) {
  EXPECT_EQ(stats.received, stats.finished + stats.aborted + stats.failed + stats.waiting + stats.running);
  EXPECT_GE(stats.waiting, 0);
}

TEST(Engine, AnswersEachRequestAsIfItWereAlone) {
  const auto engine = start(engine_options());
  std::vector<std::shared_ptr<Inbox>> inboxes;
  for (std::int32_t i = 0; i < 20; ++i) {
    inboxes.push_back(std::make_shared<Inbox>());
    ASSERT_TRUE(engine->submit(numbered(5 + i, 30, i), inboxes.back()));
  }
  for (std::int32_t i = 0; i < 20; ++i) {
    const auto& inbox = inboxes[static_cast<std::size_t>(i)];
    EXPECT_EQ(inbox->wait().tokens, alone(prompt_of(5 + i, i, kVocab), 30, kVocab));
    EXPECT_LE(inbox->times().arrived, inbox->times().scheduled);
    EXPECT_LE(inbox->times().scheduled, inbox->times().first_token);
    EXPECT_LT(inbox->times().first_token, inbox->times().last_token);
  }
  const EngineStats stats = engine->stats();
  expect_balanced(stats);
  EXPECT_EQ(stats.finished, 20);
  EXPECT_EQ(stats.generation_tokens, 20 * 30);
  EXPECT_EQ(stats.kv_usage, 0);
  EXPECT_GT(stats.steps, 30);
}

TEST(Engine, SpeculatesAsTheGateSaysAndCountsIt) {
  for (const bool adaptive : {false, true}) {
    EngineOptions options = engine_options();
    options.scheduler.most_drafts = 3;
    options.scheduler.draft_lookahead = 2;
    options.scheduler.shared_table = true;
    options.gate = {.most_drafts = 3, .adaptive = adaptive, .disable_above_seq_len = 60};
    const auto engine = start(options);
    std::vector<std::shared_ptr<Inbox>> inboxes;
    for (std::int32_t i = 0; i < 10; ++i) {
      inboxes.push_back(std::make_shared<Inbox>());
      ASSERT_TRUE(engine->submit(numbered(5 + i, 100, i), inboxes.back()));
    }
    for (std::int32_t i = 0; i < 10; ++i)
      EXPECT_EQ(inboxes[static_cast<std::size_t>(i)]->wait().tokens,
                alone(prompt_of(5 + i, i, kVocab), 100, kVocab));
    const SpeculationStats spoken = engine->stats().speculation;
    EXPECT_GT(spoken.drafts, 0);
    EXPECT_GT(spoken.accepted_tokens, 0);
    EXPECT_LT(spoken.accepted_tokens, spoken.draft_tokens);
    EXPECT_EQ(spoken.accepted_tokens, spoken.accepted_at[0] + spoken.accepted_at[1] + spoken.accepted_at[2]);
    EXPECT_GE(spoken.accepted_at[0], spoken.accepted_at[1]);
    EXPECT_EQ(spoken.drafts, spoken.verified_at[0]);
    EXPECT_EQ(spoken.draft_tokens, spoken.verified_at[0] + spoken.verified_at[1] + spoken.verified_at[2]);
    // Beyond 60 tokens nobody drafts.
    EXPECT_LT(spoken.draft_tokens, 10 * 60 * 3);
    if (!adaptive) {
      EXPECT_EQ(spoken.chosen[1] + spoken.chosen[2], 0);
    }
  }
}

TEST(Engine, WarnsOnceOfADraftThatGuessesNoise) {
  EngineOptions options = engine_options();
  options.scheduler.most_drafts = 2;
  options.scheduler.shared_table = true;
  options.gate = {.most_drafts = 2, .adaptive = false};
  std::vector<std::string> warnings;  // written before the last output is handed out
  options.on_warning = [&](const std::string& what) { warnings.push_back(what); };
  FakeRunner::Options noise = runner_options(options.scheduler);
  noise.drafts_noise = true;
  auto runner = std::make_unique<FakeRunner>(noise);
  auto engine = Engine::create(options, std::move(runner));
  ASSERT_TRUE(engine.ok());
  const auto inbox = std::make_shared<Inbox>();
  ASSERT_TRUE((*engine)->submit(numbered(5, 380, 1), inbox));
  EXPECT_EQ(inbox->wait().tokens, alone(prompt_of(5, 1, kVocab), 380, kVocab));
  engine->reset();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], HasSubstr("only 0 of the last 64 first drafts stood"));
}

TEST(Engine, RefusesBadRequestsWithoutCountingThem) {
  const auto engine = start(engine_options());
  const auto inbox = std::make_shared<Inbox>();
  GenerationRequest request = numbered(5, 30, 1);
  request.sampling.top_p = 2;
  EXPECT_EQ(engine->submit(request, inbox).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(engine->submit(request_of({}, 5), inbox).error().what, HasSubstr("no tokens"));
  EXPECT_THAT(engine->submit(request_of({1, kVocab}, 5), inbox).error().what,
              HasSubstr("Token 1 of the prompt is 997"));
  EXPECT_THAT(engine->submit(request_of({1, -1}, 5), inbox).error().what, HasSubstr("is -1"));
  EXPECT_THAT(engine->submit(numbered(400, 1, 1), inbox).error().what, HasSubstr("context holds 400"));
  EXPECT_EQ(engine->stats().received, 0);
}

TEST(Engine, RefusesSettingsThatCannotWork) {
  EngineOptions options = engine_options();
  options.scheduler.max_num_seqs = 0;
  EXPECT_THAT(Engine::create(options, nullptr).error().what, HasSubstr("max-num-seqs is 0"));
  options = engine_options();
  options.end_tokens = {kVocab};
  EXPECT_THAT(Engine::create(options, nullptr).error().what, HasSubstr("End token 997"));
}

TEST(Engine, RefusesMoreThanTheQueueHolds) {
  EngineOptions options = engine_options();
  options.max_waiting = 2;
  options.scheduler.max_num_seqs = 1;
  Gate gate;
  const auto engine = start(options, [&](const StepPlan&) { gate.pass(); });
  std::vector<std::shared_ptr<Inbox>> inboxes(3);
  for (auto& inbox : inboxes) inbox = std::make_shared<Inbox>();
  ASSERT_TRUE(engine->submit(numbered(5, 3, 1), inboxes[0]));
  gate.grant(1);
  gate.wait_for_arrival(2);  // the first is running and counted so
  ASSERT_TRUE(engine->submit(numbered(5, 3, 2), inboxes[1]));
  ASSERT_TRUE(engine->submit(numbered(5, 3, 3), inboxes[2]));
  const auto refused = engine->submit(numbered(5, 3, 4), std::make_shared<Inbox>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(refused.error().what, HasSubstr("2 requests are waiting and 2 may"));
  gate.open();
  for (auto& inbox : inboxes) EXPECT_EQ(inbox->wait().finished, FinishReason::kLength);
}

TEST(Engine, ShowsARequestAsRunningDuringItsFirstStep) {
  Gate gate;
  const auto engine = start(engine_options(), [&](const StepPlan&) { gate.pass(); });
  const auto inbox = std::make_shared<Inbox>();
  ASSERT_TRUE(engine->submit(numbered(5, 2, 1), inbox));
  gate.wait_for_arrival(1);
  EXPECT_EQ(engine->stats().running, 1);
  EXPECT_GT(engine->stats().kv_usage, 0);
  gate.open();
  inbox->wait();
}

TEST(Engine, EndsACancelledRequestWithinAStep) {
  Gate gate;
  const auto engine = start(engine_options(), [&](const StepPlan&) { gate.pass(); });
  const auto inbox = std::make_shared<Inbox>();
  const auto id = engine->submit(numbered(5, 300, 1), inbox);
  ASSERT_TRUE(id);
  gate.grant(3);
  gate.wait_for_arrival(4);
  engine->cancel(*id);
  gate.grant(1);
  const Received got = inbox->wait();
  EXPECT_EQ(got.finished, FinishReason::kAbort);
  // Three steps have run; the engine may have taken two of their results or already wait for the fourth's.
  EXPECT_GE(got.tokens.size(), 2U);
  EXPECT_LE(got.tokens.size(), 4U);
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.aborted, 1);
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.kv_usage, 0);
  engine->cancel(*id);
  engine->cancel({12345});
  gate.open();  // for the step that was launched behind the cancelled one's last
}

TEST(Engine, CountsARequestsEndBeforeItsSinkHearsOfIt) {
  class Auditor final : public RequestSink {
   public:
    void on_output(const RequestOutput& output) override {
      if (output.finished) finished_then = engine->stats().finished;
    }
    Engine* engine = nullptr;
    std::atomic<std::int64_t> finished_then{-1};
  };
  const auto engine = start(engine_options());
  const auto auditor = std::make_shared<Auditor>();
  auditor->engine = engine.get();
  ASSERT_TRUE(engine->submit(numbered(5, 3, 1), auditor));
  engine->drain(1min);
  EXPECT_EQ(auditor->finished_then, 1);
}

TEST(Engine, LetsGoOfASinkAtItsEndAndNotWithTheNextRequest) {
  class Mourned final : public RequestSink {
   public:
    explicit Mourned(std::atomic<bool>& gone) : gone_(gone) {}
    ~Mourned() override { gone_ = true; }
    void on_output(const RequestOutput&) override {}

   private:
    std::atomic<bool>& gone_;
  };
  std::atomic<bool> gone{false};
  const auto engine = start(engine_options());
  ASSERT_TRUE(engine->submit(numbered(5, 3, 1), std::make_shared<Mourned>(gone)));
  engine->drain(1min);
  EXPECT_TRUE(gone);
}

TEST(Engine, AbortsOnlyTheRequestWhoseSinkThrows) {
  class Broken final : public RequestSink {
   public:
    void on_output(const RequestOutput& output) override {
      if (output.finished) ended = true;
      throw std::runtime_error("socket is gone");
    }
    std::atomic<bool> ended{false};
  };
  const auto engine = start(engine_options());
  const auto broken = std::make_shared<Broken>();
  const auto inbox = std::make_shared<Inbox>();
  ASSERT_TRUE(engine->submit(numbered(5, 300, 1), broken));
  ASSERT_TRUE(engine->submit(numbered(5, 50, 2), inbox));
  EXPECT_EQ(inbox->wait().tokens.size(), 50U);
  EXPECT_TRUE(broken->ended);
  EXPECT_EQ(engine->stats().aborted, 1);
}

TEST(Drain, FinishesWhatRunsAndTakesNothingNew) {
  Gate gate;
  const auto engine = start(engine_options(), [&](const StepPlan&) { gate.pass(); });
  const auto inbox = std::make_shared<Inbox>();
  ASSERT_TRUE(engine->submit(numbered(5, 30, 1), inbox));
  gate.wait_for_arrival(1);
  std::thread drainer([&] { engine->drain(10min); });
  Result<RequestId> late = RequestId{};
  do {
    late = engine->submit(numbered(5, 1, 2), std::make_shared<Inbox>());
  } while (late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kUnavailable);
  EXPECT_FALSE(inbox->is_finished());
  gate.open();
  drainer.join();
  EXPECT_TRUE(inbox->is_finished());
  EXPECT_EQ(inbox->wait().tokens.size(), 30U);
  engine->drain(0ms);  // again, with nothing to do
}

TEST(Drain, ReturnsAfterTheLastSinkHasHeard) {
  class Slow final : public RequestSink {
   public:
    void on_output(const RequestOutput& output) override {
      if (!output.finished) return;
      std::unique_lock lock(mutex);
      is_inside = true;
      changed.notify_all();
      // Long enough for a drain that does not wait for us to return.
      returned_early = changed.wait_for(lock, 50ms, [&] { return drained; });
      heard = true;
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool is_inside = false;
    bool drained = false;
    bool returned_early = false;
    bool heard = false;
  };
  const auto engine = start(engine_options());
  const auto slow = std::make_shared<Slow>();
  ASSERT_TRUE(engine->submit(numbered(5, 3, 1), slow));
  {
    std::unique_lock lock(slow->mutex);
    slow->changed.wait(lock, [&] { return slow->is_inside; });
  }
  engine->drain(1min);
  {
    const std::lock_guard lock(slow->mutex);
    slow->drained = true;
  }
  slow->changed.notify_all();
  const std::lock_guard lock(slow->mutex);
  EXPECT_TRUE(slow->heard);
  EXPECT_FALSE(slow->returned_early);
}

TEST(Drain, AbortsWhatOutlastsItsPatience) {
  const auto engine = start(engine_options());
  std::vector<std::shared_ptr<Inbox>> inboxes;
  for (std::int32_t i = 0; i < 12; ++i) {
    inboxes.push_back(std::make_shared<Inbox>());
    ASSERT_TRUE(engine->submit(numbered(5, 390, i), inboxes.back()));
  }
  engine->drain(0ms);
  for (const auto& inbox : inboxes) ASSERT_TRUE(inbox->is_finished());
  const EngineStats stats = engine->stats();
  expect_balanced(stats);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_GT(stats.aborted, 0);
}

TEST(Engine, TellsEveryoneWhenAStepThrows) {
  EngineOptions options = engine_options();
  options.scheduler.max_num_seqs = 2;
  std::atomic<int> told{0};
  std::string message;
  options.on_fatal = [&](const Error& error) {
    message = error.message();
    ++told;
  };
  const auto engine = start(options, [&](const StepPlan& plan) {
    if (plan.step == 5) throw std::runtime_error("device 3 fell off the bus");
  });
  std::vector<std::shared_ptr<Inbox>> inboxes;
  for (std::int32_t i = 0; i < 5; ++i) {
    inboxes.push_back(std::make_shared<Inbox>());
    if (!engine->submit(numbered(5, 100, i), inboxes.back()).ok()) inboxes.pop_back();
  }
  ASSERT_FALSE(inboxes.empty());
  for (const auto& inbox : inboxes) {
    const Received got = inbox->wait();
    EXPECT_EQ(got.finished, FinishReason::kError);
    EXPECT_THAT(got.error->message(), HasSubstr("device 3 fell off the bus"));
  }
  engine->drain(1min);
  while (told == 0) std::this_thread::yield();
  EXPECT_EQ(told, 1);
  EXPECT_THAT(message, HasSubstr("device 3 fell off the bus"));
  const auto late = engine->submit(numbered(5, 1, 2), std::make_shared<Inbox>());
  ASSERT_FALSE(late.ok());
  EXPECT_THAT(late.error().what, HasSubstr("device 3 fell off the bus"));
  const EngineStats stats = engine->stats();
  expect_balanced(stats);
  EXPECT_EQ(stats.failed, static_cast<std::int64_t>(inboxes.size()));
}

// Several clients, one auditor. Run under the thread sanitizer too.
TEST(Engine, KeepsItsBooksBalancedWhileManyThreadsSubmitAndCancel) {
  EngineOptions options = engine_options(60);
  options.scheduler.forecast_admission = false;  // so that some are preempted
  auto engine = start(options);
  constexpr int kClients = 4;
  constexpr int kRequests = 60;
  std::atomic<int> busy{kClients};
  std::atomic<int> refused{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&, client] {
      std::mt19937 random(static_cast<std::uint32_t>(client));
      std::vector<std::pair<std::shared_ptr<Inbox>, GenerationRequest>> sent;
      for (int i = 0; i < kRequests; ++i) {
        auto request =
            numbered(1 + static_cast<std::int32_t>(random() % 60),
                     1 + static_cast<std::int32_t>(random() % 60), static_cast<std::int32_t>(random() % 50));
        if (random() % 10 == 0) request.sampling.top_p = -1;
        const auto inbox = std::make_shared<Inbox>();
        const auto id = engine->submit(request, inbox);
        if (!id) {
          ++refused;
          continue;
        }
        sent.emplace_back(inbox, request);
        if (random() % 4 == 0) {
          if (random() % 2 == 0) inbox->wait_for_tokens(1);
          engine->cancel(*id);
        } else if (random() % 3 == 0) {
          inbox->wait();
        }
      }
      for (const auto& [inbox, request] : sent) {
        const Received got = inbox->wait();
        auto expected = alone(request.prompt, request.sampling.max_tokens, kVocab);
        if (got.finished == FinishReason::kAbort) expected.resize(got.tokens.size());
        EXPECT_EQ(got.tokens, expected);
      }
      --busy;
    });
  }
  EngineStats before;
  while (busy > 0) {
    const EngineStats now = engine->stats();
    expect_balanced(now);
    EXPECT_GE(now.received, before.received);
    EXPECT_GE(now.finished, before.finished);
    EXPECT_GE(now.aborted, before.aborted);
    EXPECT_GE(now.generation_tokens, before.generation_tokens);
    before = now;
    std::this_thread::yield();
  }
  for (auto& client : clients) client.join();
  const EngineStats end = engine->stats();
  EXPECT_EQ(end.received, kClients * kRequests - refused);
  EXPECT_EQ(end.running + end.waiting, 0);
  EXPECT_EQ(end.kv_usage, 0);
}

TEST(Engine, EndsCleanlyWithRequestsInEveryState) {
  std::vector<std::shared_ptr<Inbox>> inboxes;
  {
    const auto engine = start(engine_options());
    for (std::int32_t i = 0; i < 30; ++i) {
      inboxes.push_back(std::make_shared<Inbox>());
      ASSERT_TRUE(engine->submit(numbered(50, 300, i), inboxes.back()));
    }
    inboxes[0]->wait_for_tokens(1);
  }
  for (const auto& inbox : inboxes) EXPECT_TRUE(inbox->is_finished());
}

}  // namespace
}  // namespace tessera

// Steps that are planned ahead give the tokens, and verify the drafts, that steps one after the other give:
// over ten thousand steps with random delays in every hand-over. Without the guard on the plans' memory they
// do not.
#include "engine/step_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/slowdown.h"
#include "base/test_seed.h"
#include "engine/engine.h"
#include "engine/scheduler_drive.h"

namespace tessera {
namespace {

constexpr std::int32_t kVocab = 997;

// Waits at random; from any thread.
class Delays {
 public:
  explicit Delays(unsigned seed) : random_(seed) {}
  void wait() {
    const std::chrono::microseconds most(40);
    std::chrono::microseconds time(0);
    {
      const std::lock_guard lock(mutex_);
      if (random_() % 4 != 0) return;
      time = most * static_cast<int>(random_() % 4);
    }
    std::this_thread::sleep_for(time);
  }

 private:
  std::mutex mutex_;
  std::mt19937 random_;
};

// What a request received, output by output: its tokens, and how many of them were drafts.
struct Transcript {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> accepted;
  std::optional<FinishReason> finished;
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

class Recorder final : public RequestSink {
 public:
  void on_output(const RequestOutput& output) override {
    const std::lock_guard lock(mutex_);
    for (const SampledToken& token : output.tokens) transcript_.tokens.push_back(token.token);
    transcript_.accepted.push_back(output.accepted_drafts);
    transcript_.finished = output.finished;
  }
  Transcript transcript() {
    const std::lock_guard lock(mutex_);
    return transcript_;
  }

 private:
  std::mutex mutex_;
  Transcript transcript_;
};

struct Served {
  std::vector<Transcript> transcripts;
  EngineStats stats;
};

// Requests that end at an end token or at their length, and share prefixes; a few have a grammar. The first
// is alone in the first step (for which the gate wants no drafts, since nobody decodes), and all others are
// there before it ends; the pool is large enough for as many as run. So nobody's drafts hang on chance.
Served serve(int requests, PipelineOptions pipeline, Delays* delays) {
  EngineOptions options;
  options.scheduler.max_num_seqs = 8;
  options.scheduler.max_num_batched_tokens = 64;
  options.scheduler.max_model_len = 200;
  options.scheduler.block_size = 4;
  options.scheduler.kv_blocks = 800;
  options.scheduler.vocab = kVocab;
  options.scheduler.most_drafts = 3;
  options.end_tokens = {3, 5, 8};
  options.gate = GateOptions{.most_drafts = 3, .adaptive = false};
  options.pipeline = std::move(pipeline);
  auto runner = std::make_unique<FakeRunner>(runner_options(options.scheduler));
  if (delays != nullptr) {
    options.pipeline.before = [delays](HandOver) { delays->wait(); };
    runner->before_drafts = [delays] { delays->wait(); };
  }
  std::promise<void> first_runs;
  std::promise<void> all_are_there;
  runner->before_step = [&, there = all_are_there.get_future().share(),
                         is_first = true](const StepPlan&) mutable {
    if (std::exchange(is_first, false)) first_runs.set_value();
    there.wait();
  };
  auto engine = Engine::create(std::move(options), std::move(runner));
  EXPECT_TRUE(engine.ok());
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (std::int32_t i = 0; i < requests; ++i) {
    recorders.push_back(std::make_shared<Recorder>());
    GenerationRequest request = request_of(prompt_of(1 + i % 37, 1 + i % 50, kVocab), 20 + i % 90);
    request.sampling.min_tokens = i % 3 == 0 ? 12 : 0;
    if (i % 60 == 7) request.sampling.constraint = std::make_shared<Multiples>(kVocab, 2);
    EXPECT_TRUE((*engine)->submit(std::move(request), recorders.back()).ok());
    if (i == 0) first_runs.get_future().wait();
  }
  all_are_there.set_value();
  (*engine)->drain(std::chrono::minutes(5));
  Served served;
  served.stats = (*engine)->stats();
  engine->reset();
  for (const auto& recorder : recorders) served.transcripts.push_back(recorder->transcript());
  return served;
}

TEST(StepPipeline, GivesTheTokensOfStepsOneAfterTheOtherWhateverIsLate) {
  const unsigned seed = test_seed();
  SCOPED_TRACE("TESSERA_SEED=" + std::to_string(seed));
  Delays delays(seed);
  constexpr int kRequests = 3600;
  const Served one_by_one = serve(kRequests, {.ahead = false, .before = {}}, nullptr);
  const Served ahead = serve(kRequests, {.ahead = true, .before = {}}, &delays);
  EXPECT_GE(ahead.stats.steps, 10000);
  EXPECT_GT(ahead.stats.speculation.accepted_tokens, 10000);
  EXPECT_GT(ahead.stats.speculation.refused_drafts, 100);
  EXPECT_LT(ahead.stats.awaited_constraint, ahead.stats.steps / 2);
  std::size_t stopped = 0;
  for (std::size_t i = 0; i < kRequests; ++i) {
    ASSERT_EQ(ahead.transcripts[i].tokens, one_by_one.transcripts[i].tokens) << "request " << i;
    ASSERT_EQ(ahead.transcripts[i].accepted, one_by_one.transcripts[i].accepted) << "request " << i;
    stopped += ahead.transcripts[i].finished == FinishReason::kStop ? 1 : 0;
  }
  EXPECT_GT(stopped, 100U) << "no longer ends sequences that are in a step under way";
}

// The drafts of a step read its plan after its tokens are known. If the engine does not wait for that, it
// writes the next plan but one over it.
TEST(StepPipeline, WithoutTheGuardOnPlansDraftsReadWhatIsNotTheirs) {
  if (kThreadSanitized) GTEST_SKIP() << "a race by intention";
  Delays delays(test_seed());
  constexpr int kRequests = 1000;
  const Served one_by_one = serve(kRequests, {.ahead = false, .before = {}}, nullptr);
  const Served ahead = serve(kRequests, {.ahead = true, .before = {}, .guards_plans = false}, &delays);
  EXPECT_FALSE(ahead.transcripts == one_by_one.transcripts);
}

TEST(StepPipeline, HandsOutTheErrorOfAStepAndRunsNoFurther) {
  for (const bool ahead : {false, true}) {
    Drive drive([] {
      SchedulerOptions options;
      options.max_num_seqs = 1;
      options.max_num_batched_tokens = 8;
      options.max_model_len = 50;
      options.block_size = 4;
      options.kv_blocks = 20;
      options.vocab = kVocab;
      return options;
    }());
    ASSERT_TRUE(drive.submit(request_of({1, 2}, 20)).ok());
    auto runner = std::make_unique<FakeRunner>(runner_options(drive.options));
    std::atomic<int> begun = 0;
    runner->before_step = [&](const StepPlan&) {
      if (++begun == 2) throw std::runtime_error("the device is gone");
    };
    StepPipeline pipeline(std::move(runner), {.ahead = ahead, .before = {}});
    pipeline.launch(drive.scheduler.plan_step({}), {});
    drive.take(drive.scheduler.apply(*pipeline.take().result, {}));
    pipeline.launch(drive.scheduler.plan_step({}), {});
    if (ahead) {
      pipeline.wait_for_plans();
      pipeline.launch(drive.scheduler.plan_step({}), {});
    }
    EXPECT_THROW(pipeline.take(), std::runtime_error) << ahead;
    EXPECT_THROW(pipeline.take(), std::runtime_error) << ahead;
    EXPECT_EQ(begun, 2) << ahead;
  }
}

}  // namespace
}  // namespace tessera

// Whatever arrives, however prompts are cut, whoever is preempted, cached or cancelled: each request receives
// the tokens that it would receive alone, and the pool comes back whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "engine/scheduler_drive.h"

namespace tessera {
namespace {

constexpr std::int32_t kVocab = 97;

struct Expected {
  GenerationRequest request;
  std::vector<std::int32_t> tokens;
  bool may_be_cut = false;  // cancelled
};

class RandomLoad {
 public:
  explicit RandomLoad(std::uint32_t seed)
      : seed_(seed), random_(seed), drive_(options(), std::vector<std::int32_t>{pick(0, kVocab - 1)}) {
    plans_ahead_ = pick(0, 2) > 0;
    if (plans_ahead_) drive_.runner.set_listener([](StepResult&) {});  // tells nothing of drafts
    for (int i = 0; i < 3; ++i) prefixes_.push_back(prompt_of(pick(1, longest() / 2), pick(1, 1000), kVocab));
  }

  void run() {
    int to_come = pick(5, 60);
    while (to_come > 0 || drive_.scheduler.has_work() || drive_.scheduler.flying() > 0) {
      if (to_come > 0 && (pick(0, 2) == 0 || !drive_.scheduler.has_work())) {
        submit();
        --to_come;
      }
      if (pick(0, 25) == 0 && drive_.last_id > 0) cancel();
      if (drive_.options.most_drafts > 0 && pick(0, 5) == 0)
        drive_.policy = {.drafts = pick(0, drive_.options.most_drafts),
                         .longest_sequence = pick(0, 2) == 0 ? pick(1, 100) : 0};
      // Mostly ahead, as far as that goes, or never.
      if (plans_ahead_ && drive_.scheduler.has_work() && pick(0, 7) > 0) {
        while (drive_.scheduler.may_plan_ahead()) {
          const std::size_t flying = drive_.scheduler.flying();
          drive_.plan();
          if (drive_.scheduler.flying() == flying) break;
        }
        ahead_ += drive_.scheduler.flying() == Scheduler::kMostFlying ? 1 : 0;
        if (pick(0, 9) == 0 && drive_.last_id > 0) cancel();
      }
      drive_.step();
      most_preemptions_ = std::max(most_preemptions_, preemptions());
    }
    check();
  }
  std::int64_t preempted() const { return drive_.scheduler.counters().preemptions; }
  std::int64_t hits() const { return drive_.scheduler.counters().prefix_hits; }
  std::int64_t accepted() const { return drive_.scheduler.counters().speculation.accepted_tokens; }
  std::int64_t ahead() const { return ahead_; }
  std::int64_t sharded() const { return drive_.scheduler.counters().sharded; }

 private:
  std::int32_t pick(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(random_);
  }

  SchedulerOptions options() {
    SchedulerOptions options;
    options.max_num_seqs = pick(1, 9);
    options.max_num_batched_tokens = pick(1, 70);
    options.block_size = std::vector{1, 2, 3, 4, 7, 16, 64}[static_cast<std::size_t>(pick(0, 6))];
    options.max_model_len = pick(20, 200);
    options.dcp_ranks = std::vector{1, 1, 2, 3, 4, 8}[static_cast<std::size_t>(pick(0, 5))];
    options.replicate_up_to = pick(0, 1) == 0 ? 0 : pick(0, options.max_model_len);
    options.kv_blocks = pick(1, 3 * options.max_model_len / options.block_size / options.dcp_ranks + 2);
    options.vocab = kVocab;
    options.most_drafts = pick(0, 1) == 0 ? 0 : pick(1, 7);
    options.draft_lookahead = pick(0, options.most_drafts);
    options.shared_table = options.most_drafts > 0;
    options.prefix_caching = pick(0, 3) > 0;
    options.aligned_chunks = pick(0, 1) == 0;
    options.forecast_admission = pick(0, 1) == 0;
    options.hash_key = {.low = seed_, .high = 1};
    return options;
  }
  std::int32_t longest() {
    return std::min(drive_.options.max_model_len, drive_.limits.kv_blocks * drive_.options.block_size);
  }

  void submit() {
    std::vector<std::int32_t> prompt;
    if (pick(0, 1) == 0) prompt = prefixes_[static_cast<std::size_t>(pick(0, 2))];
    if (pick(0, 3) == 0 && drive_.last_id > 0) {  // the next turn of a conversation
      const Expected& turn =
          expected_.at(static_cast<std::uint64_t>(pick(1, static_cast<std::int32_t>(drive_.last_id))));
      prompt = turn.request.prompt;
      prompt.insert(prompt.end(), turn.tokens.begin(), turn.tokens.end());
    }
    const auto tail = prompt_of(pick(prompt.empty() ? 1 : 0, 40), pick(1, 5), kVocab);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    GenerationRequest request = request_of(prompt, pick(0, 60));
    request.priority = pick(-1, 1);
    request.sampling.ignore_eos = pick(0, 1) == 0;
    request.sampling.min_tokens = pick(0, 1) == 0 ? 0 : pick(0, request.sampling.max_tokens);
    if (pick(0, 2) == 0) request.sampling.stop_token_ids = {pick(0, kVocab - 1), pick(0, kVocab - 1)};
    if (pick(0, 3) == 0) request.sampling.prompt_logprobs = pick(0, 2);
    if (pick(0, 4) == 0) request.cache_salt = "tenant";

    const auto size = static_cast<std::int32_t>(prompt.size());
    const std::int32_t most = request.sampling.max_tokens;
    const std::int32_t room = drive_.options.max_model_len - size;
    const std::int32_t cut = std::min(most, room);
    const bool fits =
        room >= std::min(most, 1) && drive_.scheduler.kv().blocks_for(size + cut) <= drive_.limits.kv_blocks;
    const auto id = drive_.submit(request);
    ASSERT_EQ(id.ok(), fits) << (id.ok() ? "" : id.error().message());
    if (!id.ok()) return;
    std::vector<std::int32_t> stops = request.sampling.stop_token_ids;
    if (!request.sampling.ignore_eos)
      stops.insert(stops.end(), drive_.limits.end_tokens.begin(), drive_.limits.end_tokens.end());
    expected_[id->value] = {.request = request,
                            .tokens = alone(prompt, cut, kVocab, stops, request.sampling.min_tokens)};
  }

  void cancel() {
    const auto id = static_cast<std::uint64_t>(pick(1, static_cast<std::int32_t>(drive_.last_id)));
    drive_.take(drive_.scheduler.cancel({id}));
    drive_.scheduler.check_invariants();
    if (drive_.received[id].finished == FinishReason::kAbort) expected_[id].may_be_cut = true;
  }

  std::int32_t preemptions() const {
    std::int32_t most = 0;
    for (const auto& [id, got] : drive_.received) most = std::max(most, got.preemptions);
    return most;
  }

  void check() {
    const SchedulerCounters& counters = drive_.scheduler.counters();
    ASSERT_EQ(drive_.scheduler.kv().used_blocks(), 0);
    ASSERT_LE(most_preemptions_, 2);
    ASSERT_EQ(counters.finished + counters.aborted, static_cast<std::int64_t>(drive_.last_id));
    std::int64_t tokens = 0;
    for (auto& [id, want] : expected_) {
      const Received& got = drive_.received[id];
      tokens += static_cast<std::int64_t>(got.tokens.size());
      if (want.may_be_cut) want.tokens.resize(std::min(want.tokens.size(), got.tokens.size()));
      ASSERT_EQ(got.tokens, want.tokens) << "request " << id;
      ASSERT_TRUE(got.finished.has_value()) << "request " << id;
      check_prompt_logprobs(want, got);
    }
    ASSERT_EQ(counters.generation_tokens, tokens);
  }

  void check_prompt_logprobs(const Expected& want, const Received& got) const {
    const auto& prompt = want.request.prompt;
    if (!want.request.sampling.prompt_logprobs) {
      ASSERT_TRUE(got.prompt_logprobs.empty());
      return;
    }
    if (!want.may_be_cut) {
      ASSERT_EQ(got.prompt_logprobs.size(), prompt.size() - 1);
    }
    FakeRunner::Hash context = 0;
    for (std::size_t i = 0; i < got.prompt_logprobs.size(); ++i) {
      context = FakeRunner::chain(context, prompt[i]);
      ASSERT_EQ(got.prompt_logprobs[i].token, prompt[i + 1]);
      ASSERT_EQ(got.prompt_logprobs[i].logprob, FakeRunner::logprob_of(context, prompt[i + 1]));
    }
  }

  std::uint32_t seed_;
  std::mt19937 random_;
  Drive drive_;
  std::vector<std::vector<std::int32_t>> prefixes_;
  std::map<std::uint64_t, Expected> expected_;
  std::int32_t most_preemptions_ = 0;
  bool plans_ahead_ = false;
  std::int64_t ahead_ = 0;  // steps that were planned before the result of the one before them was known
};

TEST(SchedulerProperty, EveryRequestGetsWhatItWouldGetAlone) {
  // TESSERA_SEED repeats one failing load, TESSERA_LOADS tries more.
  const char* one = std::getenv("TESSERA_SEED");
  const char* many = std::getenv("TESSERA_LOADS");
  const auto first = static_cast<std::uint32_t>(one ? std::strtoul(one, nullptr, 10) : 1);
  const auto loads = static_cast<std::uint32_t>(one ? 1 : many ? std::strtoul(many, nullptr, 10) : 400);
  std::int64_t preempted = 0;
  std::int64_t hits = 0;
  std::int64_t sharded = 0;
  std::int64_t accepted = 0;
  std::int64_t ahead = 0;
  for (std::uint32_t seed = first; seed < first + loads; ++seed) {
    SCOPED_TRACE("TESSERA_SEED=" + std::to_string(seed));
    RandomLoad load(seed);
    load.run();
    if (HasFatalFailure()) return;
    preempted += load.preempted();
    hits += load.hits();
    sharded += load.sharded();
    accepted += load.accepted();
    ahead += load.ahead();
  }
  if (one) return;
  EXPECT_GT(preempted, 50) << "the loads no longer reach what they are to test";
  EXPECT_GT(hits, 1000);
  EXPECT_GT(sharded, 100);
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(ahead, 1000);
}

}  // namespace
}  // namespace tessera

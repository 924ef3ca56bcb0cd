#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "engine/scheduler_drive.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kVocab = 997;

SchedulerOptions options_of(std::int32_t kv_blocks, std::int32_t block_size = 4) {
  SchedulerOptions options;
  options.max_num_seqs = 8;
  options.max_num_batched_tokens = 32;
  options.max_model_len = 1000;
  options.block_size = block_size;
  options.kv_blocks = kv_blocks;
  options.vocab = kVocab;
  options.hash_key = {.low = 3, .high = 4};
  return options;
}

GenerationRequest numbered(std::int32_t prompt, std::int32_t max_tokens, std::int32_t seed) {
  return request_of(prompt_of(prompt, seed, kVocab), max_tokens);
}

std::vector<std::int32_t> solo(const GenerationRequest& request) {
  return alone(request.prompt, request.sampling.max_tokens, kVocab);
}

// --- what a step consists of

TEST(Scheduler, CutsAPromptToTheBudgetAndSamplesAtItsEnd) {
  Drive drive(options_of(100));
  ASSERT_TRUE(drive.submit(numbered(70, 2, 1)));
  std::vector<std::int32_t> counts;
  std::vector<bool> samples;
  drive.runner.before_step = [&](const StepPlan& plan) {
    counts.push_back(plan.work[0].count);
    samples.push_back(plan.work[0].samples);
    EXPECT_EQ(plan.work[0].is_decode, counts.size() == 4);
  };
  drive.run();
  EXPECT_EQ(counts, (std::vector<std::int32_t>{32, 32, 6, 1}));
  EXPECT_EQ(samples, (std::vector<bool>{false, false, true, true}));
}

TEST(Scheduler, EndsChunksAtBlocksWhenAsked) {
  SchedulerOptions options = options_of(100);
  options.max_num_batched_tokens = 10;
  options.aligned_chunks = true;
  Drive drive(options);
  ASSERT_TRUE(drive.submit(numbered(27, 1, 1)));
  std::vector<std::int32_t> counts;
  drive.runner.before_step = [&](const StepPlan& plan) { counts.push_back(plan.work[0].count); };
  drive.run();
  EXPECT_EQ(counts, (std::vector<std::int32_t>{8, 8, 8, 3}));
}

TEST(Scheduler, LetsDecodesGoOnWhileALongPromptIsRead) {
  Drive drive(options_of(300));
  ASSERT_TRUE(drive.submit(numbered(4, 40, 1)));
  drive.step();
  ASSERT_TRUE(drive.submit(numbered(500, 1, 2)));
  for (int step = 0; step < 10; ++step) drive.step();
  EXPECT_EQ(drive.received[1].tokens.size(), 11U);
  drive.run();
}

// What a copy of the block table to a device costs: nothing but new blocks once the batch is steady.
TEST(Scheduler, WritesOnlyNewBlocksOfTheTableInASteadyBatch) {
  Drive drive(options_of(300));
  for (std::int32_t i = 0; i < 8; ++i) ASSERT_TRUE(drive.submit(numbered(4 + i, 60, i)));
  for (int step = 0; step < 6; ++step) drive.step();
  std::size_t written = 0;
  drive.runner.before_step = [&](const StepPlan& plan) {
    ASSERT_EQ(plan.work.size(), 8U);
    for (const TableWrite& write : plan.views[0].table_writes) {
      EXPECT_EQ(write.count, 1);
      ++written;
    }
  };
  for (int step = 0; step < 40; ++step) drive.step();
  EXPECT_EQ(written, 8U * 40 / 4);
}

// --- ends

TEST(Scheduler, ReadsThePromptAloneWhenNoOutputIsWanted) {
  Drive drive(options_of(100));
  GenerationRequest request = numbered(70, 0, 1);
  request.sampling.prompt_logprobs = 3;
  ASSERT_TRUE(drive.submit(request));
  drive.run();
  EXPECT_EQ(drive.received[1].finished, FinishReason::kLength);
  EXPECT_TRUE(drive.received[1].tokens.empty());
  ASSERT_EQ(drive.received[1].prompt_logprobs.size(), 69U);
  EXPECT_EQ(drive.received[1].prompt_logprobs[68].top.size(), 3U);
}

TEST(Scheduler, StopsAtAnEndTokenAndNamesIt) {
  GenerationRequest request = numbered(5, 20, 1);
  const std::int32_t end = solo(request)[7];
  Drive drive(options_of(100), {end});
  ASSERT_TRUE(drive.submit(request));
  GenerationRequest ignoring = request;
  ignoring.sampling.ignore_eos = true;
  ASSERT_TRUE(drive.submit(ignoring));
  drive.run();
  EXPECT_EQ(drive.received[1].finished, FinishReason::kStop);
  EXPECT_EQ(drive.received[1].stop_token, end);
  EXPECT_EQ(drive.received[1].tokens.size(), 8U);
  EXPECT_EQ(drive.received[1].tokens.back(), end);
  EXPECT_EQ(drive.received[2].finished, FinishReason::kLength);
  EXPECT_EQ(drive.received[2].tokens.size(), 20U);
}

TEST(Scheduler, BansEveryStopWhileMinTokensLast) {
  GenerationRequest request = numbered(5, 20, 1);
  request.sampling.min_tokens = 9;
  request.sampling.stop_token_ids = {solo(request)[3]};
  Drive drive(options_of(100), {solo(request)[5]});
  ASSERT_TRUE(drive.submit(request));
  std::vector<std::int32_t> banned;
  drive.runner.before_step = [&](const StepPlan& plan) {
    for (const SequenceStart& start : plan.starts) banned = start.end_tokens;
  };
  drive.run();
  EXPECT_THAT(banned, ::testing::UnorderedElementsAre(solo(request)[3], solo(request)[5]));
  EXPECT_GT(drive.received[1].tokens.size(), 9U);
}

TEST(Scheduler, FillsTheContextToItsLastToken) {
  SchedulerOptions options = options_of(100);
  options.max_model_len = 50;
  Drive drive(options);
  ASSERT_TRUE(drive.submit(numbered(49, 1, 1)));
  ASSERT_TRUE(drive.submit(numbered(30, 500, 2)));
  ASSERT_TRUE(drive.submit(numbered(50, 0, 3)));
  drive.run();
  EXPECT_EQ(drive.received[1].tokens.size(), 1U);
  EXPECT_EQ(drive.received[2].tokens.size(), 20U);
  EXPECT_EQ(drive.received[2].finished, FinishReason::kLength);
  EXPECT_EQ(drive.received[3].finished, FinishReason::kLength);
  const auto refused = drive.submit(numbered(50, 1, 4));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().what, HasSubstr("50"));
}

TEST(Scheduler, FailsOnlyTheRequestWhoseLogitsAreNaN) {
  Drive drive(options_of(100));
  const GenerationRequest sick = numbered(6, 20, 1);
  ASSERT_TRUE(drive.submit(numbered(5, 20, 2)));
  ASSERT_TRUE(drive.submit(sick));
  ASSERT_TRUE(drive.submit(numbered(7, 20, 3)));
  auto context = sick.prompt;
  for (const std::int32_t token : solo(sick)) {
    if (context.size() == 10) break;
    context.push_back(token);
  }
  drive.runner.is_invalid = [bad = FakeRunner::context(context)](FakeRunner::Hash h) { return h == bad; };
  drive.run();
  EXPECT_EQ(drive.received[2].finished, FinishReason::kError);
  ASSERT_TRUE(drive.received[2].error.has_value());
  EXPECT_THAT(drive.received[2].error->what, HasSubstr("token 10"));
  EXPECT_EQ(drive.received[2].tokens.size(), 4U);
  EXPECT_EQ(drive.received[1].tokens.size(), 20U);
  EXPECT_EQ(drive.received[3].tokens.size(), 20U);
  EXPECT_EQ(drive.scheduler.kv().used_blocks(), 0);
  EXPECT_EQ(drive.scheduler.counters().failed, 1);
}

TEST(Scheduler, AsksTheConstraintBeforeEachTokenAndTellsItEach) {
  Drive drive(options_of(100));
  const auto by_seven = std::make_shared<Multiples>(kVocab, 7);
  GenerationRequest first = numbered(70, 15, 1);
  first.sampling.constraint = by_seven;
  GenerationRequest second = numbered(5, 15, 2);
  second.sampling.constraint = std::make_shared<Multiples>(kVocab, 11);
  ASSERT_TRUE(drive.submit(first));
  ASSERT_TRUE(drive.submit(second));
  ASSERT_TRUE(drive.submit(numbered(5, 15, 3)));
  drive.run();
  EXPECT_EQ(by_seven->accepted(), 15);
  for (const std::int32_t token : drive.received[1].tokens) EXPECT_EQ(token % 7, 0);
  for (const std::int32_t token : drive.received[2].tokens) EXPECT_EQ(token % 11, 0);
  EXPECT_EQ(drive.received[3].tokens, solo(numbered(5, 15, 3)));
}

TEST(Scheduler, FailsOnlyTheRequestWhoseConstraintThrows) {
  Drive drive(options_of(100));
  GenerationRequest broken = numbered(5, 15, 1);
  broken.sampling.constraint = std::make_shared<Multiples>(kVocab, 7, 3);
  ASSERT_TRUE(drive.submit(broken));
  ASSERT_TRUE(drive.submit(numbered(5, 15, 2)));
  drive.run();
  EXPECT_EQ(drive.received[1].finished, FinishReason::kError);
  EXPECT_EQ(drive.received[1].tokens.size(), 3U);
  EXPECT_EQ(drive.received[2].tokens.size(), 15U);
}

// Drafts under a grammar that changes from token to token: the row behind each draft has the mask that this
// draft leaves, drafts that the grammar does not allow are not verified, and what a request gets is the same.
TEST(Scheduler, VerifiesDraftsUnderAConstraint) {
  const auto run = [](std::int32_t drafts, bool breaks) {
    SchedulerOptions options = options_of(200);
    options.most_drafts = drafts;
    options.shared_table = drafts > 0;
    Drive drive(options);
    drive.policy.drafts = drafts;
    for (std::int32_t i = 0; i < 12; ++i) {
      GenerationRequest request = numbered(5 + i, 60, i);
      if (i % 3 > 0) request.sampling.constraint = std::make_shared<Multiples>(kVocab, 2, breaks ? 30 : 1000);
      EXPECT_TRUE(drive.submit(std::move(request)));
    }
    drive.run();
    std::vector<std::vector<std::int32_t>> tokens;
    for (const auto& [id, received] : drive.received) tokens.push_back(received.tokens);
    EXPECT_EQ(drive.scheduler.counters().failed, breaks ? 8 : 0);
    return std::pair(tokens, drive.scheduler.counters());
  };
  for (const bool breaks : {false, true}) {
    const auto [plain, without] = run(0, breaks);
    const auto [drafted, with] = run(3, breaks);
    EXPECT_EQ(drafted, plain);
    EXPECT_GT(with.refused_drafts, 50);
    // More than the four requests without a grammar could have had accepted.
    if (!breaks) {
      EXPECT_GT(with.speculation.accepted_tokens, 4 * 60 + 50);
    }
  }
}

// --- prefix cache

TEST(PrefixHits, GrowWithAConversationByWholeBlocks) {
  Drive drive(options_of(2000, 64));
  std::vector<std::int32_t> dialogue;
  std::int32_t computed_before = 0;
  for (std::int32_t turn = 0; turn < 20; ++turn) {
    const auto news = prompt_of(150, turn, kVocab);
    dialogue.insert(dialogue.end(), news.begin(), news.end());
    if (static_cast<std::int32_t>(dialogue.size()) + 30 > drive.options.max_model_len) break;
    const auto id = drive.submit(request_of(dialogue, 30));
    ASSERT_TRUE(id);
    drive.run();
    const Received& got = drive.received[id->value];
    // The rows of the last generated token were never computed.
    EXPECT_EQ(got.cached_tokens, computed_before / 64 * 64) << "turn " << turn;
    dialogue.insert(dialogue.end(), got.tokens.begin(), got.tokens.end());
    computed_before = static_cast<std::int32_t>(dialogue.size()) - 1;
  }
  EXPECT_GT(computed_before, 800);
}

TEST(PrefixHits, NeverCoverTheWholePrompt) {
  Drive drive(options_of(100));
  const GenerationRequest request = numbered(16, 3, 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(drive.submit(request));
    drive.run();
  }
  EXPECT_EQ(drive.received[2].cached_tokens, 12);
  EXPECT_EQ(drive.received[2].tokens, drive.received[1].tokens);
  EXPECT_EQ(drive.scheduler.counters().prefix_queries, 32);
  EXPECT_EQ(drive.scheduler.counters().prefix_hits, 12);
}

TEST(PrefixHits, StayWithinOneSaltAndCanBeSwitchedOff) {
  GenerationRequest request = numbered(16, 3, 1);
  Drive drive(options_of(100));
  for (const char* salt : {"a", "b", "a"}) {
    request.cache_salt = salt;
    ASSERT_TRUE(drive.submit(request));
    drive.run();
  }
  EXPECT_EQ(drive.received[2].cached_tokens, 0);
  EXPECT_EQ(drive.received[3].cached_tokens, 12);

  SchedulerOptions options = options_of(100);
  options.prefix_caching = false;
  Drive without(options);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(without.submit(request));
    without.run();
  }
  EXPECT_EQ(without.received[2].cached_tokens, 0);
  EXPECT_EQ(without.scheduler.counters().prefix_queries, 0);
}

TEST(PrefixHits, AreSkippedWhereEveryPromptLogprobIsWanted) {
  Drive drive(options_of(100));
  GenerationRequest request = numbered(40, 3, 1);
  ASSERT_TRUE(drive.submit(request));
  drive.run();
  request.sampling.prompt_logprobs = 0;
  ASSERT_TRUE(drive.submit(request));
  drive.run();
  EXPECT_EQ(drive.received[2].cached_tokens, 0);
  EXPECT_EQ(drive.received[2].prompt_logprobs.size(), 39U);
}

TEST(PrefixHits, LetEqualPromptsThatArriveTogetherBeComputedOnce) {
  Drive drive(options_of(300));
  for (std::int32_t i = 0; i < 4; ++i) {
    GenerationRequest request = numbered(100, 20, 1);
    request.prompt.push_back(i);
    ASSERT_TRUE(drive.submit(request));
  }
  drive.run();
  EXPECT_EQ(drive.scheduler.counters().computed_tokens, 101 + 3 * 1 + 4 * 19);
  for (std::uint64_t id = 2; id <= 4; ++id) EXPECT_EQ(drive.received[id].cached_tokens, 100);
}

// vllm#14255: 30 prompts over one prefix of 4,097 tokens, cache on and off.
TEST(PrefixHits, LeaveOutputsOverACommonPrefixAsTheyWere) {
  SchedulerOptions options = options_of(1000, 64);
  options.max_model_len = 6000;
  options.max_num_batched_tokens = 512;
  Drive drive(options);
  const auto prefix = prompt_of(4097, 1, kVocab);
  std::vector<GenerationRequest> requests;
  for (std::int32_t i = 0; i < 30; ++i) {
    auto prompt = prefix;
    const auto tail =
        prompt_of(std::vector{1, 2, 63, 64, 65, 500}[static_cast<std::size_t>(i % 6)], 2 + i, kVocab);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    requests.push_back(request_of(prompt, 20));
    ASSERT_TRUE(drive.submit(requests.back()));
  }
  drive.run();
  std::int64_t cached = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(drive.received[i + 1].tokens, solo(requests[i])) << i;
    cached += drive.received[i + 1].cached_tokens;
  }
  EXPECT_EQ(cached, 29 * 4096);
}

// --- a pool too small for all

TEST(FullPool, RefusesAtOnceWhatCanNeverFitWithBothNumbers) {
  Drive drive(options_of(10));  // 40 tokens
  const auto refused = drive.submit(numbered(30, 11, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().what, HasSubstr("needs 41 tokens"));
  EXPECT_THAT(refused.error().what, HasSubstr("pool has 40"));
  ASSERT_TRUE(drive.submit(numbered(30, 10, 1)));
  drive.run();
  EXPECT_EQ(drive.received[1].tokens.size(), 10U);
}

TEST(FullPool, ServesRequestsOfItsWholeSizeOneAfterAnother) {
  Drive drive(options_of(10));
  for (std::int32_t i = 0; i < 5; ++i) ASSERT_TRUE(drive.submit(numbered(30, 10, i)));
  drive.run();
  for (std::uint64_t id = 1; id <= 5; ++id) EXPECT_EQ(drive.received[id].tokens.size(), 10U);
  EXPECT_EQ(drive.scheduler.counters().recomputed_tokens, 0);
}

struct Pressure {
  const char* name;
  std::int32_t prompt;
  std::int32_t output;      // really generated
  std::int32_t max_tokens;  // asked for
  bool forecast = true;
};

struct Outcome {
  double recomputed = 0;  // share of all computed tokens
  std::int32_t most_preemptions = 0;
};

// Twelve requests over a pool that holds four in full; the end token makes each output as long as stated.
Outcome run_under(const Pressure& load) {
  SchedulerOptions options = options_of(4 * (load.prompt + load.output) / 64, 64);
  options.max_num_seqs = 128;
  options.max_num_batched_tokens = 2048;
  options.max_model_len = load.prompt + load.max_tokens;
  options.kv_blocks = std::max(options.kv_blocks, (options.max_model_len + 63) / 64);
  options.forecast_admission = load.forecast;
  Drive drive(options, {}, false);
  for (std::int32_t i = 0; i < 12; ++i) {
    GenerationRequest request = numbered(load.prompt, load.max_tokens, i);
    if (load.output < load.max_tokens) {
      // Every token but 0 ends it, none may before the last.
      request.sampling.min_tokens = load.output - 1;
      request.sampling.stop_token_ids.resize(kVocab);
      std::iota(request.sampling.stop_token_ids.begin(), request.sampling.stop_token_ids.end(), 0);
      request.sampling.stop_token_ids.erase(request.sampling.stop_token_ids.begin());
    }
    EXPECT_TRUE(drive.submit(request));
  }
  drive.run();
  Outcome outcome;
  for (const auto& [id, got] : drive.received) {
    EXPECT_TRUE(got.finished.has_value());
    outcome.most_preemptions = std::max(outcome.most_preemptions, got.preemptions);
  }
  const SchedulerCounters& counters = drive.scheduler.counters();
  outcome.recomputed =
      static_cast<double>(counters.recomputed_tokens) / static_cast<double>(counters.computed_tokens);
  std::printf("  %-28s recomputed %.4f, most preemptions %d, steps %lld\n", load.name, outcome.recomputed,
              outcome.most_preemptions, static_cast<long long>(drive.runner.steps));
  return outcome;
}

// vllm#41951, #54644.
TEST(FullPool, ThrowsAwayLittleWork) {
  for (const Pressure& load :
       {Pressure{"8k in, 2k out", 8192, 2048, 2048}, Pressure{"1k in, 9k out", 1024, 9216, 9216},
        Pressure{"128 in, 10k out", 128, 9984, 9984},
        Pressure{"8k in, 2k out, no forecast", 8192, 2048, 2048, false}}) {
    SCOPED_TRACE(load.name);
    const Outcome outcome = run_under(load);
    EXPECT_LE(outcome.most_preemptions, 2);
    if (load.forecast) {
      EXPECT_LT(outcome.recomputed, 0.1);
    }
  }
}

TEST(FullPool, PreemptsTheOneThatLosesLeastAndResumesItFirst) {
  SchedulerOptions options = options_of(20);
  options.forecast_admission = false;
  Drive drive(options);
  ASSERT_TRUE(drive.submit(numbered(28, 30, 1)));
  ASSERT_TRUE(drive.submit(numbered(8, 60, 2)));
  ASSERT_TRUE(drive.submit(numbered(20, 30, 3)));
  std::map<std::uint64_t, std::size_t> before;
  while (drive.scheduler.counters().preemptions == 0) {
    for (const auto& [id, got] : drive.received) before[id] = got.tokens.size();
    ASSERT_TRUE(drive.step());
  }
  EXPECT_EQ(drive.received[1].tokens.size(), before[1] + 1);
  EXPECT_EQ(drive.received[2].tokens.size(), before[2]);
  EXPECT_EQ(drive.received[3].tokens.size(), before[3] + 1);
  ASSERT_TRUE(drive.submit(numbered(4, 4, 4)));
  while (drive.received[2].tokens.size() == before[2]) {
    ASSERT_TRUE(drive.step());
    EXPECT_TRUE(drive.received[4].tokens.empty() || drive.received[2].tokens.size() > before[2]);
  }
  drive.run();
  for (std::int32_t i = 1; i <= 3; ++i)
    EXPECT_EQ(drive.received[static_cast<std::uint64_t>(i)].finished, FinishReason::kLength);
}

// The decoding one has its token planned when the prefill of better priority takes its blocks.
TEST(FullPool, SpendsAVictimsShareOfTheBudgetOnOthers) {
  SchedulerOptions options = options_of(14);
  options.forecast_admission = false;
  options.max_num_batched_tokens = 3;
  Drive drive(options);
  ASSERT_TRUE(drive.submit(numbered(12, 40, 1)));
  while (drive.received[1].tokens.empty()) drive.step();
  GenerationRequest urgent = numbered(40, 4, 2);
  urgent.priority = -1;
  ASSERT_TRUE(drive.submit(urgent));
  std::size_t tokens = 0;
  drive.runner.before_step = [&](const StepPlan& plan) { tokens = plan.tokens.size(); };
  while (drive.scheduler.counters().preemptions == 0) ASSERT_TRUE(drive.step());
  EXPECT_EQ(tokens, 3U);
  drive.run();
}

TEST(FullPool, KeepsAVictimsBlocksUntilTheyAreNeeded) {
  SchedulerOptions options = options_of(20);
  options.forecast_admission = false;
  Drive drive(options);
  ASSERT_TRUE(drive.submit(numbered(40, 20, 1)));  // 15 blocks at its end
  ASSERT_TRUE(drive.submit(numbered(36, 4, 2)));   // 10 blocks: the second is sent back
  drive.run();
  EXPECT_GE(drive.received[2].preemptions, 1);
  EXPECT_EQ(drive.received[2].tokens, solo(numbered(36, 4, 2)));
  // 20 - 15 blocks were never overwritten.
  EXPECT_LE(drive.scheduler.counters().recomputed_tokens, 36 - 20 + 4);
}

// Prefills that together fill the pool, none of them able to end.
TEST(FullPool, UntiesPrefillsThatBlockEachOther) {
  SchedulerOptions options = options_of(20);
  options.forecast_admission = false;
  options.max_num_batched_tokens = 8;
  Drive drive(options);
  for (std::int32_t i = 0; i < 4; ++i) {
    GenerationRequest request = numbered(70, 2, i);
    ASSERT_TRUE(drive.submit(request));
    drive.step();
  }
  drive.run();
  for (std::int32_t i = 0; i < 4; ++i)
    EXPECT_EQ(drive.received[static_cast<std::uint64_t>(i) + 1].tokens, solo(numbered(70, 2, i)));
}

TEST(FullPool, GivesEachPromptLogprobOnceThroughPreemptions) {
  SchedulerOptions options = options_of(14);
  options.forecast_admission = false;
  options.max_num_batched_tokens = 9;
  Drive drive(options);
  for (std::int32_t i = 0; i < 4; ++i) {
    GenerationRequest request = numbered(25, 28, i);
    request.sampling.prompt_logprobs = 1;
    ASSERT_TRUE(drive.submit(request));
  }
  drive.run();
  EXPECT_GT(drive.scheduler.counters().preemptions, 0);
  for (std::uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(drive.received[id].prompt_logprobs.size(), 24U);
}

// --- order

TEST(Order, FollowsPriorityThenArrival) {
  SchedulerOptions options = options_of(100);
  options.max_num_seqs = 1;
  Drive drive(options);
  for (const std::int32_t priority : {0, 5, -3, 0}) {
    GenerationRequest request = numbered(8, 2, priority);
    request.priority = priority;
    ASSERT_TRUE(drive.submit(request));
  }
  std::vector<std::uint64_t> order;
  while (drive.step()) {
    for (auto& [id, got] : drive.received)
      if (got.finished && std::ranges::count(order, id) == 0) order.push_back(id);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 1, 4, 2}));
}

// A large request is not overtaken for ever by small ones that would fit beside the running ones.
TEST(Order, LetsNobodyOvertakeALargeRequestOfTheSamePriority) {
  Drive drive(options_of(20));
  ASSERT_TRUE(drive.submit(numbered(20, 20, 1)));
  drive.step();
  ASSERT_TRUE(drive.submit(numbered(60, 20, 2)));  // needs the whole pool
  std::uint64_t last = 2;
  for (std::int32_t i = 0; i < 200 && !drive.received[2].finished; ++i) {
    if (i % 3 == 0) {
      const auto small = drive.submit(numbered(4, 4, 3 + i));
      ASSERT_TRUE(small);
      last = small->value;
    }
    drive.step();
    for (std::uint64_t id = 3; id <= last; ++id)
      EXPECT_TRUE(drive.received[id].tokens.empty() || !drive.received[2].tokens.empty()) << id;
  }
  EXPECT_TRUE(drive.received[2].finished.has_value());
  drive.run();
}

TEST(Order, TakesBlocksFromAWorsePriorityNeverFromABetter) {
  SchedulerOptions options = options_of(20);
  options.forecast_admission = false;
  Drive drive(options);
  for (std::int32_t i = 0; i < 6; ++i) {
    GenerationRequest request = numbered(16, 40, i);
    request.priority = i % 2;
    ASSERT_TRUE(drive.submit(request));
  }
  drive.run();
  std::int32_t worse = 0;
  for (std::uint64_t id = 1; id <= 6; ++id) {
    EXPECT_EQ(drive.received[id].tokens.size(), 40U);
    if (id % 2 == 0) worse += drive.received[id].preemptions;
  }
  EXPECT_GT(worse, 0);
}

// --- cancelling

TEST(Cancel, FreesEverythingInTheQueueInPrefillAndInDecode) {
  SchedulerOptions options = options_of(100);
  options.max_num_seqs = 2;
  Drive drive(options);
  ASSERT_TRUE(drive.submit(numbered(8, 100, 1)));
  drive.step();
  ASSERT_TRUE(drive.submit(numbered(200, 80, 2)));
  ASSERT_TRUE(drive.submit(numbered(8, 100, 3)));
  drive.step();
  EXPECT_EQ(drive.scheduler.running(), 2);
  EXPECT_EQ(drive.scheduler.waiting(), 1);
  for (const std::uint64_t id : {3U, 2U, 1U}) {
    drive.take(drive.scheduler.cancel({id}));
    drive.scheduler.check_invariants();
    EXPECT_EQ(drive.received[id].finished, FinishReason::kAbort);
  }
  EXPECT_FALSE(drive.scheduler.has_work());
  EXPECT_EQ(drive.scheduler.kv().used_blocks(), 0);
  EXPECT_EQ(drive.scheduler.counters().aborted, 3);
  EXPECT_TRUE(drive.scheduler.cancel({1}).empty());
  EXPECT_TRUE(drive.scheduler.cancel({99}).empty());
}

TEST(Cancel, LetsThoseBehindALargeRequestPassItsPlace) {
  Drive drive(options_of(20));
  ASSERT_TRUE(drive.submit(numbered(20, 30, 1)));
  drive.step();
  ASSERT_TRUE(drive.submit(numbered(60, 20, 2)));
  ASSERT_TRUE(drive.submit(numbered(4, 4, 3)));
  drive.step();
  EXPECT_EQ(drive.scheduler.running(), 1);
  drive.take(drive.scheduler.cancel({2}));
  drive.step();
  EXPECT_EQ(drive.scheduler.running(), 2);
  drive.run();
}

TEST(Cancel, TellsTheRunnerWhichSlotsAreGoneWithTheNextPlan) {
  Drive drive(options_of(100));
  ASSERT_TRUE(drive.submit(numbered(8, 100, 1)));
  drive.step();
  drive.take(drive.scheduler.cancel({1}));
  ASSERT_TRUE(drive.submit(numbered(8, 2, 2)));
  std::vector<std::int32_t> retired;
  drive.runner.before_step = [&](const StepPlan& plan) {
    retired.insert(retired.end(), plan.retired.begin(), plan.retired.end());
  };
  drive.run();
  EXPECT_EQ(retired.size(), 1U);
}

}  // namespace
}  // namespace tessera

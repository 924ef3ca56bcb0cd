#include "engine/plan_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "base/test_seed.h"
#include "engine/plan_codec_limits.h"
#include "engine/scheduler_drive.h"

namespace tessera {
namespace {

using testing::HasSubstr;

constexpr const PlanLimits& kLimits = kSeedLimits;

SchedulerOptions scheduler_options() {
  SchedulerOptions options;
  options.max_num_seqs = kLimits.max_num_seqs;
  options.max_num_batched_tokens = kLimits.max_num_batched_tokens;
  options.max_model_len = kLimits.max_model_len;
  options.block_size = kLimits.block_size;
  options.kv_blocks = kLimits.kv_blocks;
  options.dcp_ranks = kLimits.dcp_ranks;
  options.replicate_up_to = 40;  // so that both kinds run, and sequences change from one to the other
  options.vocab = kLimits.vocab;
  options.most_drafts = kLimits.max_drafts;
  options.draft_lookahead = 2;
  options.shared_table = kLimits.shared_table;
  return options;
}

std::vector<std::byte> encoded(const StepPlan& plan) {
  std::vector<std::byte> bytes;
  encode_plan(plan, bytes);
  return bytes;
}

// A plan with something in every field.
StepPlan full_plan() {
  StepPlan plan;
  plan.step = 77;
  plan.retired = {3};
  SequenceStart start;
  start.slot = 2;
  start.seed = 0xfedcba9876543210U;
  start.prompt = {5, 6, 7};
  start.output = {8};
  start.end_tokens = {1, 2};
  start.sampling.temperature = 0.7F;
  start.sampling.top_k = 40;
  start.sampling.seed = 12;
  start.sampling.logit_bias = {{17, -3.5F}, {18, 100.0F}};
  start.sampling.max_tokens = 20;
  start.sampling.min_tokens = 2;
  start.sampling.ignore_eos = true;
  start.sampling.stop_token_ids = {9};
  start.sampling.logprobs = 5;
  plan.starts = {start};
  plan.work = {{.slot = 0,
                .first_token = 0,
                .count = 1,
                .first_position = 40,
                .is_decode = true,
                .is_sharded = true,
                .table_row = 4,
                .samples = true,
                .drafts_wanted = 2,
                .allowed_mask = 0},
               {.slot = 2,
                .first_token = 1,
                .count = 4,
                .first_position = 17,
                .is_sharded = true,
                .table_row = 5,
                .context_owners = 0,
                .samples = true,
                .prompt_logprobs = 3,
                .allowed_mask = 1}};
  plan.tokens = {-1, 5, 6, 7, 8};
  plan.positions = {40, 17, 18, 19, 20};
  plan.next_tokens = {-1, 6, 7, -1, -1};
  plan.context_owners = {1, 0};
  plan.max_blocks = kLimits.max_blocks();
  plan.table_rows = kLimits.table_rows();
  plan.views.resize(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    RankView& view = plan.views[rank];
    const auto r = static_cast<std::int32_t>(rank);
    view.slots = {rank == 0 ? 100 : -1, 16 + r, 17 + r, 18 + r, -1};
    view.visible_rows = {25 - r, 1, 2, 3, 3};
    view.block_table.assign(static_cast<std::size_t>(plan.table_rows * plan.max_blocks), -1);
    view.block_table[static_cast<std::size_t>(4 * plan.max_blocks + 2)] = 6 + r;
    view.block_table[static_cast<std::size_t>(5 * plan.max_blocks)] = 1;
    view.table_writes = {{.row = 4, .first = 2, .count = 1}, {.row = 5, .first = 0, .count = 1}};
  }
  plan.shared_table = plan.views[0].block_table;
  plan.shared_table[static_cast<std::size_t>(4 * plan.max_blocks + 2)] = 2 * kLimits.kv_blocks - 1;
  plan.shared_writes = plan.views[0].table_writes;
  plan.allowed_masks.assign(2, std::vector<std::uint64_t>((kLimits.vocab + 63) / 64, 0x5555U));
  return plan;
}

std::string error_of(const StepPlan& plan) {
  PlanDecoder decoder(kLimits);
  const auto decoded = decoder.decode(encoded(plan));
  return decoded ? "decoded" : decoded.error().message();
}

TEST(PlanCodec, CarriesEveryField) {
  const StepPlan plan = full_plan();
  PlanDecoder decoder(kLimits);
  const auto decoded = decoder.decode(encoded(plan));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  const StepPlan& got = **decoded;
  EXPECT_EQ(got.step, plan.step);
  EXPECT_EQ(got.retired, plan.retired);
  EXPECT_EQ(got.tokens, plan.tokens);
  EXPECT_EQ(got.positions, plan.positions);
  EXPECT_EQ(got.context_owners, plan.context_owners);
  EXPECT_EQ(got.next_tokens, plan.next_tokens);
  ASSERT_EQ(got.views.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(got.views[rank].slots, plan.views[rank].slots);
    EXPECT_EQ(got.views[rank].visible_rows, plan.views[rank].visible_rows);
    EXPECT_EQ(got.views[rank].block_table, plan.views[rank].block_table);
    EXPECT_EQ(got.views[rank].table_writes, plan.views[rank].table_writes);
  }
  EXPECT_EQ(got.shared_table, plan.shared_table);
  EXPECT_EQ(got.shared_writes, plan.shared_writes);
  EXPECT_EQ(got.allowed_masks, plan.allowed_masks);
  ASSERT_EQ(got.work.size(), 2U);
  EXPECT_EQ(got.work[0].drafts_wanted, 2);
  EXPECT_EQ(got.work[1].prompt_logprobs, 3);
  EXPECT_EQ(got.work[1].table_row, 5);
  EXPECT_EQ(got.work[1].context_owners, 0);
  EXPECT_TRUE(got.work[1].is_sharded);
  EXPECT_TRUE(got.work[0].is_decode);
  EXPECT_FALSE(got.work[1].is_decode);
  ASSERT_EQ(got.starts.size(), 1U);
  EXPECT_EQ(got.starts[0].seed, plan.starts[0].seed);
  EXPECT_EQ(got.starts[0].prompt, plan.starts[0].prompt);
  EXPECT_EQ(got.starts[0].output, plan.starts[0].output);
  EXPECT_EQ(got.starts[0].sampling.logit_bias, plan.starts[0].sampling.logit_bias);
  EXPECT_EQ(got.starts[0].sampling.seed, plan.starts[0].sampling.seed);
  EXPECT_EQ(got.starts[0].sampling.prompt_logprobs, std::nullopt);
  EXPECT_EQ(encoded(got), encoded(plan));
}

// A whole life of a scheduler over the wire: the far runner, which checks each row of each plan, gives the
// same results, with preemptions, shared prefixes, and tables that are only sent as changes.
TEST(PlanCodec, AFarRunnerCannotTellTheDifference) {
  Drive drive(scheduler_options());
  FakeRunner far(runner_options(drive.options));
  PlanDecoder decoder(kLimits);
  std::mt19937 random(test_seed());
  std::vector<std::byte> bytes;
  int submitted = 0;
  int steps = 0;
  while (submitted < 60 || drive.scheduler.has_work()) {
    if (submitted < 60 && random() % 3 == 0) {
      GenerationRequest request = request_of(prompt_of(1 + static_cast<std::int32_t>(random() % 60),
                                                       static_cast<std::int32_t>(random() % 5), 997),
                                             1 + static_cast<std::int32_t>(random() % 30));
      if (random() % 4 == 0) request.sampling.prompt_logprobs = 2;
      ASSERT_TRUE(drive.submit(std::move(request)).ok());
      ++submitted;
    }
    if (!drive.scheduler.has_work()) continue;
    const StepPlan& plan = drive.scheduler.plan_step({}, {.drafts = static_cast<std::int32_t>(random() % 4)});
    encode_plan(plan, bytes);
    const auto decoded = decoder.decode(bytes);
    ASSERT_TRUE(decoded.ok()) << "step " << steps << ": " << decoded.error().message();
    StepResult& near_result = drive.runner.step(plan);
    const StepResult& far_result = far.step(**decoded);
    ASSERT_EQ(far_result.sampled.size(), near_result.sampled.size());
    for (std::size_t i = 0; i < near_result.sampled.size(); ++i)
      ASSERT_EQ(far_result.sampled[i].token, near_result.sampled[i].token) << "step " << steps;
    ASSERT_EQ(far_result.gained, near_result.gained);
    ASSERT_EQ(far_result.drafted, near_result.drafted);
    ASSERT_EQ(far_result.prompt_logprobs.size(), near_result.prompt_logprobs.size());
    drive.take(drive.scheduler.apply(near_result, {}));
    drive.scheduler.take_drafts(near_result);
    ++steps;
  }
  EXPECT_GT(steps, 100);
  EXPECT_GT(drive.scheduler.counters().speculation.accepted_tokens, 50);
}

TEST(PlanCodec, RefusesEveryTruncationAndTheByteTooMany) {
  const std::vector<std::byte> bytes = encoded(full_plan());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    PlanDecoder decoder(kLimits);
    EXPECT_FALSE(decoder.decode(std::span(bytes).first(size)).ok()) << size;
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  PlanDecoder decoder(kLimits);
  const auto decoded = decoder.decode(longer);
  ASSERT_FALSE(decoded.ok());
  EXPECT_THAT(decoded.error().message(),
              HasSubstr("1 of its " + std::to_string(longer.size()) + " bytes are left over"));
}

TEST(PlanCodec, AfterABadPlanNothingMoreIsTaken) {
  PlanDecoder decoder(kLimits);
  EXPECT_FALSE(decoder.decode({}).ok());
  EXPECT_FALSE(decoder.decode(encoded(full_plan())).ok());
}

TEST(PlanCodec, AnotherVersionIsNamed) {
  std::vector<std::byte> bytes = encoded(full_plan());
  bytes[4] = std::byte{99};
  PlanDecoder decoder(kLimits);
  const auto decoded = decoder.decode(bytes);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().kind, ErrorKind::kMismatch);
  EXPECT_THAT(decoded.error().message(),
              HasSubstr("version 99, this program reads version " + std::to_string(kPlanCodecVersion)));
}

TEST(PlanCodec, WhatARunnerWouldAbortOnIsRefusedByName) {
  StepPlan plan = full_plan();
  plan.tokens[1] = 997;
  EXPECT_THAT(error_of(plan), HasSubstr("a token is 997; it must lie between -1 and 996"));
  plan = full_plan();
  plan.views[1].slots[1] = 512;
  EXPECT_THAT(error_of(plan), HasSubstr("a cache row is 512"));
  plan = full_plan();
  plan.work[1].first_token = 2;
  EXPECT_THAT(error_of(plan), HasSubstr("a sequence's first token is 2"));
  plan = full_plan();
  plan.work[1].count = 3;
  EXPECT_THAT(error_of(plan), HasSubstr("the query tokens of all sequences is 4"));
  plan = full_plan();
  plan.work[0].is_decode = false;
  plan.work[0].first_position = 16;
  plan.work[0].context_owners = 0;
  plan.work[1].is_decode = true;
  plan.work[1].context_owners = -1;
  plan.work[1].allowed_mask = -1;
  EXPECT_THAT(error_of(plan), HasSubstr("A decode follows a prefill"));
  plan = full_plan();
  plan.work[1].allowed_mask = 2;
  EXPECT_THAT(error_of(plan), HasSubstr("a sequence's token mask is 2"));
  plan = full_plan();
  plan.work[0].count = 2;  // one mask for each row
  plan.work[0].allowed_mask = 1;
  EXPECT_THAT(error_of(plan), HasSubstr("a sequence's token mask is 1"));
  plan = full_plan();
  plan.work[0].open_rows = 1;  // masks are for known places
  EXPECT_THAT(error_of(plan), HasSubstr("a sequence's token mask is 0"));
  plan = full_plan();
  plan.views[0].block_table[static_cast<std::size_t>(4 * plan.max_blocks + 2)] = 32;
  EXPECT_THAT(error_of(plan), HasSubstr("do not fit its counts"));
  plan = full_plan();
  plan.starts[0].sampling.temperature = -1;
  EXPECT_THAT(error_of(plan), HasSubstr("temperature is -1"));
  plan = full_plan();
  plan.context_owners = {1};
  EXPECT_THAT(error_of(plan), HasSubstr("where a sequence's context owners begin is 0"));
  plan = full_plan();
  plan.context_owners = {1, 2};
  EXPECT_THAT(error_of(plan), HasSubstr("a context owner is 2"));
  plan = full_plan();
  plan.work[1].table_row = 8;
  EXPECT_THAT(error_of(plan), HasSubstr("a sequence's table row is 8"));
  plan = full_plan();
  plan.views[1].visible_rows[0] = 97;
  EXPECT_THAT(error_of(plan), HasSubstr("a token's visible rows is 97"));
  plan = full_plan();
  plan.views.pop_back();
  plan.shared_writes.clear();
  EXPECT_THAT(error_of(plan), HasSubstr("the number of views is 1"));
  plan = full_plan();
  plan.retired = {4};
  EXPECT_THAT(error_of(plan), HasSubstr("a retired slot is 4"));
}

// Every single changed byte is refused or gives another plan within the limits; nothing crashes or allocates
// beyond its bytes.
TEST(PlanCodec, AnyChangedByteIsRefusedOrStaysWithinTheLimits) {
  const std::vector<std::byte> bytes = encoded(full_plan());
  std::mt19937 random(test_seed());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const unsigned value : {0U, 1U, 0x7fU, 0x80U, 0xffU, static_cast<unsigned>(random() % 256)}) {
      std::vector<std::byte> changed = bytes;
      changed[at] = static_cast<std::byte>(value);
      PlanDecoder decoder(kLimits);
      const auto decoded = decoder.decode(changed);
      if (!decoded) continue;
      EXPECT_EQ(encoded(**decoded), changed) << at << " " << value;
    }
  }
}

// TESSERA_WRITE_SEEDS=FOLDER writes the fuzz target's seed corpus; else the corpus must be what is written.
TEST(PlanCodec, TheSeedsOfTheFuzzTargetAreReadable) {
  StepPlan empty;
  empty.max_blocks = kLimits.max_blocks();
  empty.table_rows = kLimits.table_rows();
  empty.views.resize(2);
  const std::pair<const char*, std::vector<std::byte>> seeds[] = {{"full", encoded(full_plan())},
                                                                  {"empty", encoded(empty)}};
  const std::filesystem::path folder =
      std::string(TESSERA_SOURCE_DIR) + "/src/engine/testdata/plan_codec_fuzz";
  const char* target = std::getenv("TESSERA_WRITE_SEEDS");
  for (const auto& [name, bytes] : seeds) {
    if (target != nullptr) {
      std::ofstream(std::filesystem::path(target) / name, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      continue;
    }
    std::ifstream in(folder / name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    ASSERT_EQ(text.size(), bytes.size()) << name;
    EXPECT_EQ(std::memcmp(text.data(), bytes.data(), bytes.size()), 0) << name;
  }
}

}  // namespace
}  // namespace tessera

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "verify/comparison.h"
#include "verify/verify_prompts.h"
#include "verify/verify_report.h"

namespace tessera {
namespace {

using testing::HasSubstr;

// --- promises
ParitySetting plain() {
  ParitySetting setting;
  setting.max_num_batched_tokens = 2048;
  setting.max_num_seqs = 16;
  return setting;
}

TEST(Promise, OfEqualConfigurationsIsEveryBit) {
  EXPECT_EQ(promise_of(plain(), plain()).level, ParityLevel::kBitEqual);
  ParitySetting fp8 = plain();
  fp8.kv_format = KvFormat::kFp8;
  EXPECT_EQ(promise_of(fp8, fp8).level, ParityLevel::kBitEqual);
}

TEST(Promise, OfOtherChunksIsTokensUnlessSumsAreFixed) {
  ParitySetting other = plain();
  other.max_num_batched_tokens = 64;
  EXPECT_EQ(promise_of(plain(), other).level, ParityLevel::kTokenEqual);
  ParitySetting a = plain();
  a.batch_invariant = other.batch_invariant = true;
  EXPECT_EQ(promise_of(a, other).level, ParityLevel::kBitEqual);
  other.batch_invariant = false;  // the two forms of attention differ in their last bits
  EXPECT_EQ(promise_of(a, other).level, ParityLevel::kTokenEqual);
}

TEST(Promise, OfOtherRanksIsTokensInF32AndABoundInNarrowRows) {
  ParitySetting split = plain();
  split.ranks = 4;
  EXPECT_EQ(promise_of(plain(), split).level, ParityLevel::kTokenEqual);
  split.context_ranks = 4;
  ParitySetting tensor_parallel_only = split;
  tensor_parallel_only.context_ranks = 1;
  EXPECT_EQ(promise_of(tensor_parallel_only, split).level, ParityLevel::kTokenEqual);
  ParitySetting a = plain();
  a.kv_format = split.kv_format = KvFormat::kFp8;
  const ParityPromise promise = promise_of(a, split);
  EXPECT_EQ(promise.level, ParityLevel::kBounded);
  EXPECT_EQ(promise.mean_kl, kl_bound_within(KvFormat::kFp8));
  EXPECT_LT(promise.mean_kl, kl_bound_to_f32(KvFormat::kFp8) / 20);  // else a lost block would hide in it
}

TEST(Promise, OfOtherRowFormatsIsTheWiderBound) {
  ParitySetting fp8 = plain();
  fp8.kv_format = KvFormat::kFp8;
  ParitySetting bf16 = plain();
  bf16.kv_format = KvFormat::kBF16;
  EXPECT_EQ(promise_of(bf16, fp8).mean_kl, kl_bound_to_f32(KvFormat::kFp8));
  EXPECT_EQ(promise_of(plain(), bf16).mean_kl, kl_bound_to_f32(KvFormat::kBF16));
}

TEST(Promise, WhereSumsFollowTheBatchIsABoundUnlessNothingDiffers) {
  ParitySetting gpu = plain();
  gpu.kv_format = KvFormat::kBF16;
  gpu.sums_follow_batch = true;
  EXPECT_EQ(promise_of(gpu, gpu).level, ParityLevel::kBitEqual);
  ParitySetting other = gpu;
  other.speculates = true;
  EXPECT_EQ(promise_of(gpu, other).level, ParityLevel::kBounded);
  EXPECT_GT(promise_of(gpu, other).mean_kl, kl_bound_within(KvFormat::kBF16));
  ParitySetting cpu = gpu;
  cpu.sums_follow_batch = false;
  EXPECT_EQ(promise_of(cpu, gpu).level, ParityLevel::kBounded);
  other.sums_follow_batch = gpu.sums_follow_batch = false;  // --batch-invariant, or the CPU
  EXPECT_EQ(promise_of(gpu, other).level, ParityLevel::kBitEqual);
  other.kv_format = KvFormat::kFp8;
  other.sums_follow_batch = true;
  EXPECT_GE(promise_of(gpu, other).mean_kl, kl_bound_to_f32(KvFormat::kFp8) / 2);
}

// --- comparisons
const std::vector<VerifyPrompt> kPrompts = {{"two", {1, 2}}};

PromptTranscript said(std::vector<std::int32_t> tokens, const LogitRows& rows) {
  return {.free = tokens, .together = tokens, .decoded = rows, .prefilled = {}};
}
// Logits of three tokens after positions 1 and 2.
const LogitRows kRows = {{1, {0.0F, 2.0F, 1.0F}}, {2, {3.0F, 0.0F, -1.0F}}};

Judgement judged(ParityLevel level, const Comparison& comparison, double bound = 0) {
  return judge({.level = level, .mean_kl = bound, .reason = ""}, comparison);
}

TEST(Comparison, OfATranscriptWithItselfIsEqualToTheBit) {
  const Transcript a = {said({1, 0}, kRows)};
  const Comparison c = compare(kPrompts, a, a);
  EXPECT_EQ(c.rows, 2);
  EXPECT_EQ(c.unequal_rows, 0);
  EXPECT_TRUE(judged(ParityLevel::kBitEqual, c).kept);
}

TEST(Comparison, LeavesOutWhatWasSaidTogetherWhereSumsFollowTheBatch) {
  const Transcript a = {said({1, 0}, kRows)};
  Transcript b = a;
  b[0].together = {1, 1};
  EXPECT_FALSE(judged(ParityLevel::kBitEqual, compare(kPrompts, a, b)).kept);
  EXPECT_TRUE(judged(ParityLevel::kBitEqual, compare(kPrompts, a, b, false)).kept);
}

TEST(Comparison, OneBitBreaksBitEqualityAlone) {
  LogitRows rows = kRows;
  rows[2][1] = std::nextafter(0.0F, 1.0F);
  const Comparison c = compare(kPrompts, {said({1, 0}, kRows)}, {said({1, 0}, rows)});
  EXPECT_EQ(c.unequal_rows, 1);
  EXPECT_FALSE(judged(ParityLevel::kBitEqual, c).kept);
  EXPECT_TRUE(judged(ParityLevel::kTokenEqual, c).kept);
}

TEST(Comparison, NamesTheFirstDifferenceWithItsGaps) {
  LogitRows rows = kRows;
  rows[2] = {0.0F, 3.5F, -1.0F};
  const Comparison c = compare(kPrompts, {said({1, 0}, kRows)}, {said({1, 1}, rows)});
  ASSERT_TRUE(c.first.has_value());
  EXPECT_EQ(c.first->position, 2);
  EXPECT_EQ(c.first->a_token, 0);
  EXPECT_EQ(c.first->b_token, 1);
  EXPECT_DOUBLE_EQ(c.first->a_gap, 3.0);
  EXPECT_DOUBLE_EQ(c.first->b_gap, 3.5);
  EXPECT_EQ(describe(*c.first, kPrompts),
            "prompt 'two', free-running, after position 2: token 0 (top-2 gap 3) against 1 (gap 3.5)");
  EXPECT_FALSE(judged(ParityLevel::kTokenEqual, c).kept);
}

TEST(Comparison, ATieNeedsBothGapsToBeSmall) {
  const LogitRows a = {{1, {1.0F, 1.0005F, 0.0F}}, {2, {3.0F, 0.0F, -1.0F}}};
  LogitRows b = {{1, {1.0005F, 1.0F, 0.0F}}, {2, {3.0F, 0.0F, -1.0F}}};
  Comparison c = compare(kPrompts, {said({1, 0}, a)}, {said({0, 0}, b)});
  EXPECT_GT(c.ties, 0);
  EXPECT_EQ(c.differing, 0);
  EXPECT_TRUE(judged(ParityLevel::kTokenEqual, c).kept);
  EXPECT_FALSE(judged(ParityLevel::kBitEqual, c).kept);
  b[1][0] = 1.5F;  // no longer a tie for b
  c = compare(kPrompts, {said({1, 0}, a)}, {said({0, 0}, b)});
  EXPECT_GT(c.differing, 0);
  EXPECT_FALSE(judged(ParityLevel::kTokenEqual, c).kept);
}

TEST(Comparison, AnAnswerThatEndsEarlyDiffers) {
  const Comparison c = compare(kPrompts, {said({1, 0}, kRows)}, {said({1}, kRows)});
  ASSERT_TRUE(c.first.has_value());
  EXPECT_EQ(c.first->b_token, -1);
}

TEST(Comparison, MeasuresTheDivergenceInNats) {
  // p = (3/4, 1/4), q = (1/4, 3/4): KL = 0.5 ln 3.
  const float log3 = std::log(3.0F);
  const std::vector<VerifyPrompt> prompts = {{"one", {1}}};
  const Transcript a = {{.free = {0}, .together = {0}, .decoded = {{0, {log3, 0.0F}}}, .prefilled = {}}};
  const Transcript b = {{.free = {1}, .together = {1}, .decoded = {{0, {0.0F, log3}}}, .prefilled = {}}};
  const Comparison c = compare(prompts, a, b);
  EXPECT_NEAR(c.mean_kl, 0.5 * std::log(3.0), 1e-6);
  EXPECT_TRUE(judged(ParityLevel::kBounded, c, 0.6).kept);
  EXPECT_FALSE(judged(ParityLevel::kBounded, c, 0.5).kept);
}

TEST(Comparison, NaNAndMissingRowsBreakEveryPromise) {
  LogitRows bad = kRows;
  bad[2][0] = std::numeric_limits<float>::quiet_NaN();
  LogitRows fewer = kRows;
  fewer.erase(2);
  for (const ParityLevel level : {ParityLevel::kBitEqual, ParityLevel::kTokenEqual, ParityLevel::kBounded}) {
    EXPECT_FALSE(judged(level, compare(kPrompts, {said({1, 0}, kRows)}, {said({1, 0}, bad)}), 1e9).kept);
    EXPECT_FALSE(judged(level, compare(kPrompts, {said({1, 0}, kRows)}, {said({1, 0}, fewer)}), 1e9).kept);
    EXPECT_FALSE(
        judged(level, compare(kPrompts, {said({}, {})}, {said({}, {})}), 1e9).kept);  // nothing compared
  }
}

// --- prompts
Encode words() {  // a token a character
  return [](const std::string& text) -> Result<std::vector<std::int32_t>> {
    return std::vector<std::int32_t>(text.begin(), text.end());
  };
}

TEST(VerifyPrompts, HaveTheLengthsAroundBlocksAndACopy) {
  const auto prompts = default_prompts(words(), 2000);
  ASSERT_TRUE(prompts.ok());
  std::vector<std::size_t> sizes;
  for (const VerifyPrompt& prompt : *prompts) sizes.push_back(prompt.tokens.size());
  EXPECT_THAT(sizes, testing::ElementsAre(1, 2, 63, 64, 65, 127, 128, 129, 300, 900));
}

TEST(VerifyPrompts, ThoseThatDoNotFitAreLeftOut) {
  const auto prompts = default_prompts(words(), 64);
  ASSERT_TRUE(prompts.ok());
  for (const VerifyPrompt& prompt : *prompts) EXPECT_LE(prompt.tokens.size(), 64U);
  EXPECT_EQ(prompts->size(), 4U);
}

TEST(VerifyPrompts, AMissingFileIsNamed) {
  const auto prompts = read_prompt_file("/nowhere/prompts.txt", words(), 100);
  ASSERT_FALSE(prompts.ok());
  EXPECT_THAT(prompts.error().message(), HasSubstr("/nowhere/prompts.txt"));
}

// --- reports
TEST(VerifyReport, JsonSaysWhatTheTextSays) {
  LogitRows rows = kRows;
  rows[2] = {0.0F, 3.5F, -1.0F};
  PairReport report{.a = plain(), .b = plain(), .promise = promise_of(plain(), plain())};
  report.comparison = compare(kPrompts, {said({1, 0}, kRows)}, {said({1, 1}, rows)});
  report.judgement = judge(report.promise, report.comparison);
  const auto json = nlohmann::json::parse(pair_json(report, kPrompts));
  EXPECT_EQ(json["kept"], false);
  EXPECT_EQ(json["level"], "bit-equal");
  EXPECT_EQ(json["first_difference"]["position"], 2);
  EXPECT_THAT(pair_text(report, kPrompts), HasSubstr("BROKEN"));
}

TEST(VerifyReport, ARefusedRowIsNotKept) {
  MatrixRow row{.ranks = 4, .context_ranks = 3, .kv = "f32", .chunk = 64};
  row.impossible = "D = 3 does not divide T = 4";
  EXPECT_FALSE(row.kept());
  EXPECT_THAT(matrix_row_text(row, kPrompts), HasSubstr("impossible: D = 3"));
  row.impossible.reset();
  row.refused = "no";
  EXPECT_FALSE(row.kept());
  EXPECT_EQ(nlohmann::json::parse(matrix_row_json(row, kPrompts))["kept"], false);
}

}  // namespace
}  // namespace tessera

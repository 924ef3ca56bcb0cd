// The step benchmark on the shipped model's config: what it counts, what it extrapolates, what it refuses.
#include "bench/step/step_cost.h"

#include <gmock/gmock.h>

#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "bench/step/random_weights.h"
#include "bench/step/step_report.h"

namespace tessera::bench {
namespace {

using ::testing::HasSubstr;

StepCostOptions tiny() {
  StepCostOptions options;
  options.config = *read_model_config(TESSERA_SOURCE_DIR "/models/tessera-tiny");
  options.shapes = {{.batch = 3, .context = 100, .query = 2}};
  options.kv_format = KvFormat::kF32;
  options.seconds = 0.01;
  options.free_bytes = std::int64_t{1} << 34;
  return options;
}

Result<StepCostReport> run(const StepCostOptions& options) {
  return measure_step(options, make_cpu_backend({.threads = 1}), cpu_device(1),
                      {.read_gb_s = 10, .tflop_s = 0.1});
}

const StepPartCost& part_of(const StepCost& step, StepPart part) {
  for (const StepPartCost& one : step.parts) {
    if (one.part == part) return one;
  }
  TS_CHECK(false, name_of(part));
  std::abort();
}

TEST(StepCost, CountsTheBytesAndFlopsOfTheFormulas) {
  const StepCostOptions options = tiny();
  const auto report = run(options);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->layers, 2);  // one dense, one of experts
  ASSERT_EQ(report->steps.size(), 1U);
  const StepCost& step = report->steps.front();
  EXPECT_GT(step.us, 0);
  EXPECT_LE(step.low_us, step.us);
  const ModelConfig& c = options.config;
  const auto tokens = 6.0;
  const StepPartCost& head = part_of(step, StepPart::kHead);
  EXPECT_EQ(head.measured.flops, 2 * tokens * static_cast<double>(c.vocab * c.hidden));
  EXPECT_GE(head.measured.bytes, 2.0 * static_cast<double>(c.vocab * c.hidden));
  // Each token sees its context, itself, and the tokens of its sequence before it: 101 and 102 rows.
  const StepPartCost& cache = part_of(step, StepPart::kCache);
  const std::int64_t row = c.mla.kv_lora_rank + c.mla.rope_dim;
  EXPECT_EQ(cache.measured.flops,
            2.0 * 2 * 3 * (101 + 102) * static_cast<double>(c.heads * (row + c.mla.kv_lora_rank)));
  EXPECT_GE(cache.measured.bytes, 2.0 * 3 * 102 * static_cast<double>(row * 4));
  const StepPartCost& experts = part_of(step, StepPart::kRoutedExperts);
  EXPECT_EQ(experts.measured.flops,
            6 * tokens * static_cast<double>(c.moe.top_k * c.hidden * c.moe.expert_width));
  double floors = 0;
  for (const StepPartCost& part : step.parts) floors += part.floor_us;
  EXPECT_DOUBLE_EQ(step.floor_us, floors);
}

TEST(StepCost, TouchesAsManyExpertsAsChanceWould) {
  StepCostOptions options = tiny();
  options.shapes = {{.batch = 1, .context = 10}, {.batch = 64, .context = 10}};
  const auto report = run(options);
  ASSERT_TRUE(report.ok()) << report.error().message();
  const double one = part_of(report->steps[0], StepPart::kRoutedExperts).measured.bytes;
  const double many = part_of(report->steps[1], StepPart::kRoutedExperts).measured.bytes;
  // One token takes 4 of 16 experts, 64 of them nearly all: not the same 4 again and again.
  EXPECT_GT(many / one, 2);
  EXPECT_LT(many / one, 4.5);
}

TEST(StepCost, ExtrapolatesByTheBytesOfThePlan) {
  StepCostOptions options = tiny();
  const auto few = run(options);
  options.layers = options.config.layers;
  const auto all = run(options);
  options.ranks = 4;
  const auto shared = run(options);
  ASSERT_TRUE(few.ok() && all.ok() && shared.ok());
  const auto floor = [](const Result<StepCostReport>& report, StepPart part) {
    return part_of(report->steps.front(), part).whole_floor_us;
  };
  for (const StepPart part : {StepPart::kAttentionProducts, StepPart::kDenseMlp, StepPart::kSharedExpert,
                              StepPart::kCache, StepPart::kHead}) {
    // Activations grow with the layers and weights alike, but for the head.
    EXPECT_NEAR(floor(few, part) / floor(all, part), 1, 0.02) << name_of(part);
  }
  const StepPartCost& whole = part_of(all->steps.front(), StepPart::kAttentionProducts);
  EXPECT_NEAR(whole.whole_us / whole.measured.us, 1, 1e-9);  // nothing to extrapolate
  // A quarter of what can be split; every rank has kv_a and q_a, and reads all rows of the cache.
  EXPECT_NEAR(floor(shared, StepPart::kHead) / floor(all, StepPart::kHead), 0.25, 0.01);
  EXPECT_NEAR(floor(shared, StepPart::kCache) / floor(all, StepPart::kCache), 1, 1e-9);
}

TEST(StepCost, ARouterOfFewExpertsIsNotStretchedByItsBytes) {
  StepCostOptions options = tiny();
  options.experts = 4;  // of 16, in one of four layers
  const auto report = run(options);
  ASSERT_TRUE(report.ok());
  const StepPartCost& router = part_of(report->steps.front(), StepPart::kRouter);
  EXPECT_GE(router.whole_floor_us / router.floor_us, 4);  // more where the layout does not pad so few rows
  EXPECT_LE(router.whole_us, router.whole_floor_us + 4 * router.measured.us);
}

TEST(StepCost, WhatDoesNotFitIsRefusedWithThePlansNumbers) {
  StepCostOptions options = tiny();
  options.free_bytes = 4 << 20;
  const auto report = run(options);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.error().message(), HasSubstr("by the plan"));
  EXPECT_THAT(report.error().message(), HasSubstr("0.00 GiB are free"));
}

TEST(StepCost, SaysHowManyExpertsWouldFit) {
  StepCostOptions options = tiny();
  const auto whole = run(options);
  ASSERT_TRUE(whole.ok());
  options.free_bytes = whole->planned_bytes - 1;
  const auto refused = run(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), HasSubstr("--experts 15 would fit"));
  options.experts = 15;
  EXPECT_TRUE(run(options).ok());
}

TEST(StepCost, LayersAndExpertsThatMakeNoSenseAreRefused) {
  for (const auto& [layers, experts] : {std::pair{1, 0}, {6, 0}, {2, 3}, {2, 17}}) {
    StepCostOptions options = tiny();
    options.layers = layers;
    options.experts = experts;
    const auto report = run(options);
    ASSERT_FALSE(report.ok()) << layers << ' ' << experts;
    EXPECT_EQ(report.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(RandomWeights, AreFiniteInEveryFormat) {
  RandomRows random;
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block128, WeightFormat::kInt4Group32}) {
    const std::vector<HostMatrix> pieces = random.rows(format, 300, 256);
    std::int64_t rows = 0;
    for (const HostMatrix& piece : pieces) {
      std::vector<float> row(256);
      for (std::int64_t r = 0; r < piece.out; ++r, ++rows) {
        piece.dequantise_row(r, row.data());
        for (const float x : row) ASSERT_TRUE(std::isfinite(x) && std::abs(x) < 16) << name_of(format);
      }
    }
    EXPECT_EQ(rows, 300);
  }
}

TEST(MlaDecodeBench, CountsRowsOnceAndPairsForEachQuery) {
  const auto backend = make_cpu_backend({.threads = 1});
  OpBench bench(*backend);
  const MlaDecodeCase problem{
      .seqs = 2, .context = 70, .heads = 8, .query = 2, .format = KvFormat::kFp8Grouped};
  const OpResult result = bench.mla_decode(problem);
  EXPECT_EQ(result.bytes, 2 * 70 * 656 + 4 * 8 * (2 * 512 + 64) * 4);
  EXPECT_EQ(result.flops, 2.0 * 2 * (69 + 70) * 8 * (2 * 512 + 64));
  EXPECT_GT(result.us, 0);
  const Measurement m = measurement_of(problem, result, {.read_gb_s = 1, .tflop_s = 1e9});
  EXPECT_DOUBLE_EQ(*m.bound, result.bytes * 1e-3);
  EXPECT_EQ(m.configuration(), "fp8_ds_mla, batch 2, context 70, heads 8, query 2");
}

}  // namespace
}  // namespace tessera::bench

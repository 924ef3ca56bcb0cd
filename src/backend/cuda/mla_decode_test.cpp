// Decode attention on the device against float64. Skipped where there is no device.
#include "backend/cuda/mla_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/cuda/mla_case.h"

namespace tessera::cuda {
namespace {

bool no_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) != cudaSuccess || count == 0;
}
bool is_hopper() { return !no_device() && traits_of(0).capability == 90; }
#define NEEDS_DEVICE() \
  if (no_device()) GTEST_SKIP() << "no CUDA device"

// bf16 and fp8 rows: P is rounded (to bf16 or f16), nothing else when out is f32; the scores are sums of
// exact products in f32. 656-byte rows: the sm90 form also rounds value x scale to f16, so a score is off by
// 2^-12 of the size of its terms, which grow with q; the portable form scales sums in f32 and rounds P twice.
double out_tolerance(const MlaCaseOptions& options) {
  if (options.kv == KvFormat::kFp8Grouped) return 8e-3 * std::max(1.0F, options.q_spread / 2);
  if (!options.out_f32) return 5e-3;
  return options.kv == KvFormat::kFp8 ? 1e-3 : 4e-3;
}
double lse_tolerance(const MlaCaseOptions& options) {
  return options.kv == KvFormat::kFp8Grouped ? 8e-3 * std::max(1.0F, options.q_spread) : 1e-3;
}

void expect_exact_enough(const MlaCaseOptions& options) {
  const MlaCase problem(options);
  const MlaCaseError error = problem.compare(problem.run());
  EXPECT_LE(error.out, out_tolerance(options)) << error.first_wrong;
  EXPECT_LE(error.lse, lse_tolerance(options)) << error.first_wrong;
}

struct Form {
  KvFormat kv;
  MlaKernel kernel;
};
std::vector<Form> forms() {
  std::vector<Form> all;
  for (const KvFormat kv : {KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped}) {
    all.push_back({kv, MlaKernel::kPortable});
    all.push_back({kv, MlaKernel::kSm90});
  }
  return all;
}

class EveryForm : public testing::TestWithParam<Form> {
 protected:
  void SetUp() override {
    NEEDS_DEVICE();
    if (GetParam().kernel == MlaKernel::kSm90 && !is_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
  }
  MlaCaseOptions options() const { return {.kv = GetParam().kv, .kernel = GetParam().kernel}; }
};
INSTANTIATE_TEST_SUITE_P(Mla, EveryForm, testing::ValuesIn(forms()), [](const auto& form) {
  return std::string(name_of(form.param.kv)) +
         (form.param.kernel == MlaKernel::kSm90 ? "_sm90" : "_portable");
});

TEST_P(EveryForm, LengthsAroundPagesAgreeWithFloat64) {
  auto o = options();
  o.lengths = {1, 63, 64, 65, 127, 128, 129, 0, 4097, 200};
  expect_exact_enough(o);
}

TEST_P(EveryForm, EveryNumberOfHeadsAgrees) {
  for (const int heads : {1, 4, 8, 12, 16, 17, 32, 64, 65, 128}) {
    SCOPED_TRACE(heads);
    auto o = options();
    o.heads = heads;
    o.lengths = {70, 1, 0, 300, 128};
    expect_exact_enough(o);
  }
}

TEST_P(EveryForm, EveryNumberOfQueryTokensIsCausal) {
  for (int q_tokens = 1; q_tokens <= 8; ++q_tokens) {
    for (const int heads : {8, 64}) {
      SCOPED_TRACE(testing::Message() << q_tokens << " query tokens, " << heads << " heads");
      auto o = options();
      o.q_tokens = q_tokens;
      o.heads = heads;
      o.lengths = {q_tokens, 64, 66, 3, 130, 0, 1025};
      expect_exact_enough(o);
    }
  }
}

TEST_P(EveryForm, RowCountsOfEachQueryTokenAreObeyed) {
  auto o = options();
  o.explicit_rows = true;
  o.q_tokens = 5;
  o.heads = 16;
  o.lengths = {0, 1, 2, 64, 65, 66, 1000};
  expect_exact_enough(o);
}

TEST_P(EveryForm, BatchesOfEmptyShardsGiveZerosAndMinusInfinity) {
  auto o = options();
  o.lengths = {0, 0, 0};
  o.q_tokens = 2;
  expect_exact_enough(o);
}

TEST_P(EveryForm, OneLongSequenceIsSplitOverTheDevice) {
  auto o = options();
  o.lengths = {131072};
  expect_exact_enough(o);
}

TEST_P(EveryForm, RaggedBatchesAgree) {
  auto o = options();
  o.lengths = {20000, 1, 64, 0, 3000, 7, 512, 9999};
  o.q_tokens = 2;
  o.heads = 64;
  expect_exact_enough(o);
}

TEST_P(EveryForm, JumpingMaximaAgree) {
  auto o = options();
  o.lengths = {5000, 300, 64};
  o.q_spread = 8.0F;
  expect_exact_enough(o);
}

TEST_P(EveryForm, OutputInBf16Agrees) {
  auto o = options();
  o.out_f32 = false;
  o.lengths = {1000, 0, 64, 30000};
  expect_exact_enough(o);
}

TEST_P(EveryForm, FixedSplitsAgree) {
  auto o = options();
  o.fixed_split_tiles = 4;
  o.lengths = {1000, 0, 64, 256, 257, 9000};
  o.q_tokens = 2;
  expect_exact_enough(o);
}

TEST_P(EveryForm, TwoRunsAndAGraphAreBitEqual) {
  auto o = options();
  o.lengths = {20000, 1, 64, 0, 3000};
  o.q_tokens = 2;
  const MlaCase problem(o);
  const auto first = problem.run();
  EXPECT_EQ(first, problem.run());
  EXPECT_EQ(first, problem.run_graph());
}

TEST_P(EveryForm, FixedSplitsMakeResultsIndependentOfTheBatch) {
  auto o = options();
  o.fixed_split_tiles = 8;
  o.heads = 64;
  o.lengths.assign(40, 5000);
  MlaCase crowd(o);
  const auto together = crowd.run();
  std::vector<std::int32_t> only_first(40, 0);
  only_first[0] = 5000;
  crowd.shorten(only_first);
  const auto almost_alone = crowd.run();
  const std::size_t row = 64 * kMlaLatent;
  EXPECT_TRUE(std::equal(together.out.begin(), together.out.begin() + static_cast<std::ptrdiff_t>(row),
                         almost_alone.out.begin()));
  EXPECT_TRUE(std::equal(together.lse.begin(), together.lse.begin() + 64, almost_alone.lse.begin()));
}

TEST_P(EveryForm, LengthsMayChangeUnderOneLayout) {
  auto o = options();
  o.lengths = {4000, 4000, 4000, 4000};
  MlaCase problem(o);
  problem.run();
  for (const std::vector<std::int32_t>& lengths :
       std::vector<std::vector<std::int32_t>>{{4000, 1, 0, 70}, {0, 0, 0, 1}, {65, 3999, 64, 0}}) {
    problem.shorten(lengths);
    const auto error = problem.compare(problem.run_graph());
    EXPECT_LE(error.out, out_tolerance(o)) << error.first_wrong;
    EXPECT_LE(error.lse, lse_tolerance(o)) << error.first_wrong;
  }
}

TEST(MlaDecode, ScalesOfFp8RowsAreApplied) {
  NEEDS_DEVICE();
  for (const MlaKernel kernel : {MlaKernel::kPortable, MlaKernel::kSm90}) {
    if (kernel == MlaKernel::kSm90 && !is_hopper()) continue;
    for (const float scale : {0.25F, 3.7F, 0.004F}) {  // the last saturates: normals over 448 * 0.004
      SCOPED_TRACE(scale);
      expect_exact_enough(
          {.kv = KvFormat::kFp8, .lengths = {64, 300, 1000}, .kernel = kernel, .kv_scale = scale});
    }
  }
}

// Products on e4m3: queries and probabilities keep four significant bits. The bounds are for these inputs
// (rows and queries of unit normals: scores of spread 1.7); docs/reference/mla-decode-h200.md has what was
// measured.
TEST(MlaDecode, ProductsOfE4m3StayWithinTheirBounds) {
  if (!is_hopper()) GTEST_SKIP() << "needs compute capability 9.0";
  MlaCaseOptions o{.kv = KvFormat::kFp8, .kernel = MlaKernel::kSm90, .fp8_math = true};
  for (const std::vector<std::int32_t>& lengths :
       std::vector<std::vector<std::int32_t>>{{1, 63, 64, 65, 0, 129}, {4097, 200, 3000}, {131072}}) {
    for (const int q_tokens : {1, 4}) {
      o.lengths = lengths;
      o.q_tokens = q_tokens;
      const MlaCase problem(o);
      const auto output = problem.run();
      const MlaCaseError error = problem.compare(output);
      EXPECT_LE(error.out, 0.2) << error.first_wrong;
      EXPECT_LE(error.lse, 0.25) << error.first_wrong;
      EXPECT_EQ(output, problem.run_graph());
      RecordProperty("out_" + std::to_string(lengths[0]) + "_" + std::to_string(q_tokens),
                     std::to_string(error.out));
      RecordProperty("lse_" + std::to_string(lengths[0]) + "_" + std::to_string(q_tokens),
                     std::to_string(error.lse));
      std::printf("fp8_math: longest %d, q %d: out %.4f lse %.4f\n",
                  *std::max_element(lengths.begin(), lengths.end()), q_tokens, error.out, error.lse);
    }
  }
}

TEST(MlaDecodeLayout, RefusesWhatItCannotDo) {
  const DeviceTraits hopper{.multiprocessors = 132, .capability = 90, .shared_bytes_a_block = 232448};
  const MlaDecodeShape good{.seqs = 4, .heads = 64, .max_blocks = 10};
  EXPECT_TRUE(mla_decode_layout(good, hopper).ok());
  const auto kind = [&](auto change, DeviceTraits device) {
    MlaDecodeShape shape = good;
    change(shape);
    const auto layout = mla_decode_layout(shape, device);
    return layout.ok() ? ErrorKind::kInternal : layout.error().kind;
  };
  EXPECT_EQ(kind([](auto& s) { s.heads = 129; }, hopper), ErrorKind::kUnsupported);
  EXPECT_EQ(kind([](auto& s) { s.heads = 0; }, hopper), ErrorKind::kUnsupported);
  EXPECT_EQ(kind([](auto& s) { s.q_tokens = 9; }, hopper), ErrorKind::kUnsupported);
  EXPECT_EQ(kind([](auto& s) { s.fp8_math = true; }, hopper), ErrorKind::kUnsupported);  // bf16 rows
  EXPECT_EQ(kind([](auto& s) { s.seqs = 0; }, hopper), ErrorKind::kTooLarge);
  EXPECT_EQ(kind([](auto& s) { s.kv = KvFormat::kF32; }, hopper), ErrorKind::kUnsupported);
  EXPECT_EQ(kind(
                [](auto& s) {
                  s.fixed_split_tiles = 1;
                  s.max_blocks = 2000;
                },
                hopper),
            ErrorKind::kTooLarge);
  EXPECT_EQ(kind([](auto& s) { s.kernel = MlaKernel::kSm90; }, {.multiprocessors = 188, .capability = 120}),
            ErrorKind::kUnsupported);
  EXPECT_EQ(kind([](auto&) {}, {.multiprocessors = 80, .capability = 70}), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace tessera::cuda

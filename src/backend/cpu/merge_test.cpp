// Merging by log-sum-exp against the same in float64, with shards that are empty, huge, tiny or poisoned.
#include "backend/cpu/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/test_seed.h"

namespace tessera {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

struct Case {
  std::int64_t ranks, tokens, heads, dim;
  std::vector<float> outs;  // [ranks, tokens, heads * dim]
  std::vector<float> lses;  // [ranks, tokens, heads]

  Parts out_parts() {
    return {Tensor::dense(outs.data(), DType::kF32, tokens, heads * dim), ranks, tokens * heads * dim * 4};
  }
  Parts lse_parts() {
    return {Tensor::dense(lses.data(), DType::kF32, tokens, heads), ranks, tokens * heads * 4};
  }
};

Case random_case(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Case c{.ranks = pick(1, 9),
         .tokens = pick(0, 5),
         .heads = pick(1, 6),
         .dim = pick(1, 40),
         .outs = {},
         .lses = {}};
  std::normal_distribution<float> normal;
  for (std::int64_t i = 0; i < c.ranks * c.tokens * c.heads; ++i) {
    const bool empty = pick(0, 3) == 0;
    // From a shard of e^-80 of the mass to one of e^80; exp of either overflows or vanishes alone.
    c.lses.push_back(empty ? kNone
                           : normal(random) *
                                 std::vector{1.0F, 30.0F, 300.0F}[static_cast<std::size_t>(pick(0, 2))]);
    for (std::int64_t d = 0; d < c.dim; ++d) c.outs.push_back(empty ? kPoison : normal(random));
  }
  return c;
}

// [tokens, heads * dim] and [tokens, heads] in float64.
struct Expected {
  std::vector<double> out, lse;
};
Expected expected_of(const Case& c) {
  Expected e;
  for (std::int64_t i = 0; i < c.tokens * c.heads; ++i) {
    const auto lse = [&](std::int64_t p) {
      return double{c.lses[static_cast<std::size_t>(p * c.tokens * c.heads + i)]};
    };
    double peak = -std::numeric_limits<double>::infinity();
    for (std::int64_t p = 0; p < c.ranks; ++p) peak = std::max(peak, lse(p));
    double sum = 0;
    for (std::int64_t p = 0; p < c.ranks; ++p) sum += std::isinf(peak) ? 0 : std::exp(lse(p) - peak);
    e.lse.push_back(std::isinf(peak) ? peak : peak + std::log(sum));
    for (std::int64_t d = 0; d < c.dim; ++d) {
      double value = 0;
      for (std::int64_t p = 0; p < c.ranks; ++p) {
        if (std::isinf(lse(p))) continue;
        value += std::exp(lse(p) - e.lse.back()) *
                 double{c.outs[static_cast<std::size_t>((p * c.tokens * c.heads + i) * c.dim + d)]};
      }
      e.out.push_back(value);
    }
  }
  return e;
}

TEST(MergePartials, IsExactForAnyPartition) {
  std::mt19937 random(test_seed());
  const auto backend = make_cpu_backend({.threads = 2});
  for (int round = 0; round < 500; ++round) {
    Case c = random_case(random);
    const Expected expected = expected_of(c);
    std::vector<float> out(static_cast<std::size_t>(c.tokens * c.heads * c.dim), kPoison);
    std::vector<float> lse(static_cast<std::size_t>(c.tokens * c.heads), kPoison);
    backend->merge_partials(c.out_parts(), c.lse_parts(), c.heads,
                            Tensor::dense(out.data(), DType::kF32, c.tokens, c.heads * c.dim),
                            Tensor::dense(lse.data(), DType::kF32, c.tokens, c.heads));
    for (std::size_t i = 0; i < out.size(); ++i)
      ASSERT_NEAR(out[i], expected.out[i], 3e-5) << "round " << round;
    for (std::size_t i = 0; i < lse.size(); ++i) {
      if (std::isinf(expected.lse[i])) {
        ASSERT_EQ(lse[i], kNone) << "round " << round;
      } else {
        ASSERT_NEAR(lse[i], expected.lse[i], 1e-6 * std::abs(expected.lse[i]) + 1e-6) << "round " << round;
      }
    }
  }
}

TEST(MergePartials, MayOverwriteItsFirstPart) {
  std::mt19937 random(test_seed());
  const auto backend = make_cpu_backend({.threads = 1});
  for (int round = 0; round < 100; ++round) {
    Case c = random_case(random);
    const Expected expected = expected_of(c);
    backend->merge_partials(c.out_parts(), c.lse_parts(), c.heads, c.out_parts()[0], c.lse_parts()[0]);
    for (std::size_t i = 0; i < expected.out.size(); ++i)
      ASSERT_NEAR(c.outs[i], expected.out[i], 3e-5) << round;
  }
}

// The other way to the same sum: each rank weighs its own part, then all are added.
TEST(WeighPartial, TermsAddUpToTheMerge) {
  std::mt19937 random(test_seed());
  const auto backend = make_cpu_backend({.threads = 1});
  for (int round = 0; round < 100; ++round) {
    Case c = random_case(random);
    const Expected expected = expected_of(c);
    std::vector<double> sum(expected.out.size(), 0);
    for (std::int64_t p = 0; p < c.ranks; ++p) {
      const Tensor own = c.out_parts()[p];
      backend->weigh_partial(c.lse_parts(), p, c.heads, own);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<const float*>(own.data)[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_NEAR(sum[i], expected.out[i], 3e-5) << "round " << round;
  }
}

TEST(Parts, ColumnsAreCutAndPutTogetherAgain) {
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> x(2 * 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  std::vector<float> cut(12, -1);
  std::vector<float> again(12, -1);
  const Tensor whole = Tensor::dense(x.data(), DType::kF32, 2, 6);
  const Parts parts{Tensor::dense(cut.data(), DType::kF32, 2, 2), 3, 16};
  backend->split_columns(whole, parts);
  EXPECT_EQ(cut, (std::vector<float>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  backend->join_columns(parts, Tensor::dense(again.data(), DType::kF32, 2, 6));
  EXPECT_EQ(again, x);
}

TEST(CopyBlocks, TakesWholeBlocksInTheOrderOfTheList) {
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> pool(4 * 2 * 3);
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<float>(i);
  const KvLayer kv{
      .data = pool.data(), .shape = KvRowShape::mla(2, 1), .blocks = 4, .block_size = 2, .row_bytes = 12};
  const std::vector<std::int32_t> blocks{3, 0};
  std::vector<float> out(12, -1);
  backend->copy_blocks(kv, blocks.data(), 2, out.data());
  EXPECT_EQ(out, (std::vector<float>{18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace tessera

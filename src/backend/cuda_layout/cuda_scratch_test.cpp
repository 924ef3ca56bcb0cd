#include "backend/cuda_layout/cuda_scratch.h"

#include <gtest/gtest.h>

#include <array>

#include "backend/cuda_layout/mla_layout.h"

namespace tessera::cuda {
namespace {

constexpr DeviceTraits kHopper{.multiprocessors = 132,
                               .capability = 90,
                               .shared_bytes_a_block = 227 << 10,
                               .shared_bytes_a_multiprocessor = 228 << 10};
constexpr DeviceTraits kBlackwell{.multiprocessors = 188,
                                  .capability = 120,
                                  .shared_bytes_a_block = 99 << 10,
                                  .shared_bytes_a_multiprocessor = 100 << 10};

Backend::Limits kimi(std::int64_t heads) {
  return {.tokens = 2048,
          .seqs = 128,
          .heads = heads,
          .head_dim = 576,
          .kv_tokens = 262144,
          .vocab = 163840,
          .width = 7168,
          .top_k = 8,
          .gate_up = 512,
          .hidden = 7168,
          .key_dim = 192,
          .value_dim = 128};
}

// A fixed number of splits for every sequence would need 4.3 GB here (512 query tokens x 64 heads x 64
// splits).
TEST(AttentionScratch, OfSplitsDoesNotGrowWithHeads) {
  for (const DeviceTraits& device : {kHopper, kBlackwell}) {
    const std::size_t most =
        std::size_t{2} * 2 * static_cast<std::size_t>(device.multiprocessors) * 64 * 513 * 4;
    for (const std::int64_t heads : {8, 16, 32, 64, 128}) {
      const AttentionScratch scratch = attention_scratch(kimi(heads), DType::kBF16, device, false);
      EXPECT_GT(scratch.workspace, 0U);
      EXPECT_LT(scratch.workspace, most + (1U << 20)) << heads << " heads, " << device.capability;
    }
  }
}

TEST(AttentionScratch, OfSplitsDoesNotGrowWithTheLongestSequence) {
  Backend::Limits limits = kimi(64);
  const std::size_t of_long = attention_scratch(limits, DType::kBF16, kHopper, false).workspace;
  limits.kv_tokens = 4096;
  EXPECT_EQ(attention_scratch(limits, DType::kBF16, kHopper, false).workspace, of_long);
}

// The layouts of every call inside the limits fit what was reserved: nothing grows while steps run.
TEST(AttentionScratch, HoldsTheLayoutOfEveryBatchInsideTheLimits) {
  const Backend::Limits limits = kimi(64);
  for (const DeviceTraits& device : {kHopper, kBlackwell}) {
    const AttentionScratch scratch = attention_scratch(limits, DType::kBF16, device, false);
    for (const KvFormat format : {KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped}) {
      for (std::int32_t query = 1; query <= kMlaMaxQueryTokens; ++query) {
        for (const std::int32_t seqs : {1, 3, 16, 128}) {
          const auto layout = mla_decode_layout(
              {.kv = format, .seqs = seqs, .q_tokens = query, .heads = 64, .max_blocks = 4096}, device);
          ASSERT_TRUE(layout.ok()) << layout.error().message();
          EXPECT_LE(layout->workspace_bytes, scratch.workspace)
              << name_of(format) << ", " << seqs << " sequences of " << query << " tokens";
        }
      }
    }
  }
}

// Two models on one device share their scratch: each part is the larger one's, not the sum.
TEST(CudaScratch, OfTwoModelsIsTheLargerOfEachPart) {
  const CudaScratchChoice choice{.device = kHopper};
  Backend::Limits wide = kimi(16);
  wide.top_k = 0;
  Backend::Limits sparse = kimi(8);
  const auto of = [&](auto... limits) {
    const std::array<Backend::Limits, sizeof...(limits)> list{limits...};
    return cuda_scratch(list, choice);
  };
  const CudaScratch both = of(wide, sparse);
  EXPECT_EQ(both.experts, of(sparse).experts);
  EXPECT_EQ(both.attention.chunk, of(wide).attention.chunk);
  EXPECT_LT(both.sum(), of(wide).sum() + of(sparse).sum());
  EXPECT_EQ(of(wide, wide).sum(), of(wide).sum());
  EXPECT_EQ(of().sum(), 0U);
}

}  // namespace
}  // namespace tessera::cuda

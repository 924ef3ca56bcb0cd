// The reference's own number formats, against their definitions.
#include "backend/cuda/mla_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace tessera::cuda {
namespace {

TEST(MlaReference, EveryE4m3CodeSurvivesAWayThereAndBack) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_value(static_cast<std::uint8_t>(code));
    if (std::isnan(value)) {
      EXPECT_EQ(code & 0x7F, 0x7F);
      continue;
    }
    EXPECT_EQ(e4m3_bits(value), code) << value;
  }
}

TEST(MlaReference, E4m3RoundsToTheNearestCode) {
  for (float value = -500.0F; value <= 500.0F; value += 0.37F) {
    const float clamped = std::fmin(std::fmax(value, -448.0F), 448.0F);
    float best = std::numeric_limits<float>::infinity();
    for (int code = 0; code < 256; ++code) {
      const float candidate = e4m3_value(static_cast<std::uint8_t>(code));
      if (!std::isnan(candidate)) best = std::fmin(best, std::abs(candidate - clamped));
    }
    EXPECT_EQ(std::abs(e4m3_value(e4m3_bits(value)) - clamped), best) << value;
  }
}

TEST(MlaReference, KnownE4m3Codes) {
  EXPECT_EQ(e4m3_value(0x38), 1.0F);
  EXPECT_EQ(e4m3_value(0x7E), 448.0F);
  EXPECT_EQ(e4m3_value(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(e4m3_value(0xB8), -1.0F);
}

TEST(MlaReference, OneRowGivesThatRow) {
  std::vector<std::uint16_t> q(576, bf16_bits(0.5F));
  std::vector<std::uint16_t> kv(64 * 576, bf16_bits(std::nanf("")));
  for (std::size_t i = 0; i < 576; ++i) kv[i] = bf16_bits(static_cast<float>(i % 7));
  const std::vector<std::int32_t> table{0};
  const auto result = mla_reference({.q = q,
                                     .kv = reinterpret_cast<const std::uint8_t*>(kv.data()),
                                     .block_table = table,
                                     .rows = 1,
                                     .softmax_scale = 0.25});
  double score = 0.0;
  for (std::size_t i = 0; i < 576; ++i) score += 0.5 * static_cast<double>(i % 7);
  EXPECT_DOUBLE_EQ(result.lse, 0.25 * score);
  for (std::size_t i = 0; i < 512; ++i) EXPECT_DOUBLE_EQ(result.out[i], static_cast<double>(i % 7));
}

TEST(MlaReference, NoRowsGiveZerosAndMinusInfinity) {
  const std::vector<std::uint16_t> q(576, bf16_bits(1.0F));
  const auto result = mla_reference({.q = q, .block_table = {}, .rows = 0});
  EXPECT_EQ(result.lse, -std::numeric_limits<double>::infinity());
  for (const double value : result.out) EXPECT_EQ(value, 0.0);
}

}  // namespace
}  // namespace tessera::cuda

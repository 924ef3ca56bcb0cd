#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tessera {
namespace {

TEST(BF16, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(BF16(1.0F)), 1.0F);
  EXPECT_EQ(static_cast<float>(BF16(1.0F + 0x1p-8F)), 1.0F);  // a tie goes to the even neighbour
  EXPECT_EQ(static_cast<float>(BF16(1.0F + 3 * 0x1p-8F)),
            1.0F + 0x1p-6F);  // and up when that is the even one
  EXPECT_TRUE(std::isnan(static_cast<float>(BF16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(static_cast<float>(BF16(std::numeric_limits<float>::max()))));
}

TEST(F8E4M3, EveryCodeSurvivesTheRoundTrip) {
  for (int code = 0; code < 256; ++code) {
    F8E4M3 value;
    value.bits = static_cast<std::uint8_t>(code);
    const float wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      EXPECT_EQ(code & 0x7f, 0x7f);
      continue;
    }
    EXPECT_EQ(F8E4M3(wide).bits, code) << wide;
  }
}

TEST(F8E4M3, SaturatesInsteadOfOverflowing) {
  EXPECT_EQ(static_cast<float>(F8E4M3(1e9F)), 448.0F);
  EXPECT_EQ(static_cast<float>(F8E4M3(-449.0F)), -448.0F);
  EXPECT_EQ(static_cast<float>(F8E4M3(std::numeric_limits<float>::infinity())), 448.0F);
}

// Against the definition: the nearest representable value, the even code on a tie.
TEST(F8E4M3, RoundsToTheNearestValue) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponent(-12.0F, 9.0F);
  for (int i = 0; i < 20000; ++i) {
    const float x = std::exp2(exponent(random)) * ((random() & 1u) != 0 ? 1.0F : -1.0F);
    const float got = static_cast<float>(F8E4M3(x));
    float best = 0;
    int best_code = 0;
    for (int code = 0; code < 0x7f; ++code) {
      F8E4M3 candidate;
      candidate.bits = static_cast<std::uint8_t>(code);
      const float c = std::copysign(static_cast<float>(candidate), x);
      const float distance = std::fabs(c - x);
      const float best_distance = std::fabs(best - x);
      if (distance < best_distance ||
          (distance == best_distance && (code & 1) == 0 && (best_code & 1) == 1)) {
        best = c;
        best_code = code;
      }
    }
    ASSERT_EQ(got, best) << x;
  }
}

}  // namespace
}  // namespace tessera

#include "engine/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tessera {
namespace {

// Walks through every step instead of the moments of leaving.
std::int64_t simulated_peak(const BlockForecast& forecast) {
  std::int64_t peak = forecast.permanent;
  std::int32_t longest = 0;
  for (const Holding& h : forecast.holdings) longest = std::max(longest, h.remaining);
  for (std::int32_t t = 0; t <= longest; ++t) {
    std::int64_t blocks = forecast.permanent;
    for (const Holding& h : forecast.holdings) {
      if (std::max(h.remaining, 0) < t) continue;
      blocks += (h.tokens + t + forecast.block_size - 1) / forecast.block_size - h.shared_blocks;
    }
    peak = std::max(peak, blocks);
  }
  return peak;
}

BlockForecast forecast_of(std::vector<Holding> holdings, std::int32_t block_size) {
  BlockForecast forecast;
  forecast.holdings = std::move(holdings);
  forecast.block_size = block_size;
  return forecast;
}

TEST(BlockForecast, CountsTheRowsOfThoseThatLeaveOnlyUntilTheyLeave) {
  // The first ends at 10 + 2, when the second has 5 + 2; then the second goes on to 5 + 6.
  EXPECT_EQ(forecast_of({{.tokens = 10, .remaining = 2}, {.tokens = 5, .remaining = 6}}, 1).peak_blocks(),
            19);
  EXPECT_EQ(forecast_of({{.tokens = 10, .remaining = 2}, {.tokens = 5, .remaining = 6}}, 1).reserved_blocks(),
            23);
}

TEST(BlockForecast, OfNobodyIsWhatStays) {
  BlockForecast forecast = forecast_of({}, 64);
  forecast.permanent = 3;
  EXPECT_EQ(forecast.peak_blocks(), 3);
  EXPECT_EQ(forecast.reserved_blocks(), 3);
}

TEST(BlockForecast, CountsAPoolThatFitsExactly) {
  const std::vector<Holding> four(4, {.tokens = 8192, .remaining = 2048});
  EXPECT_EQ(forecast_of(four, 64).peak_blocks(), 4 * 160);
  EXPECT_EQ(forecast_of(four, 64).reserved_blocks(), 4 * 160);
}

TEST(BlockForecast, AgreesWithAWalkThroughEveryStep) {
  constexpr std::uint32_t kSeed = 5;
  std::mt19937 random(kSeed);
  const auto pick = [&](std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(random);
  };
  for (int load = 0; load < 2000; ++load) {
    BlockForecast forecast =
        forecast_of({}, std::vector{1, 2, 3, 16, 64}[static_cast<std::size_t>(pick(0, 4))]);
    forecast.permanent = pick(0, 9);
    for (int i = pick(0, 12); i > 0; --i) {
      const std::int32_t tokens = pick(1, 300);
      forecast.holdings.push_back({.tokens = tokens,
                                   .remaining = pick(0, 2) == 0 ? pick(-1, 1) : pick(0, 200),
                                   .shared_blocks = pick(0, tokens / forecast.block_size)});
    }
    const std::int64_t expected = simulated_peak(forecast);
    ASSERT_EQ(forecast.peak_blocks(), expected) << "seed " << kSeed << " load " << load;
    ASSERT_GE(forecast.reserved_blocks(), expected);
  }
}

}  // namespace
}  // namespace tessera

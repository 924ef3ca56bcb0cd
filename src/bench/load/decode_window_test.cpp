#include "bench/load/decode_window.h"

#include <gmock/gmock.h>

#include <cmath>

namespace tessera::bench {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;

// `tokens` every `gap` seconds from `begin` to `end`.
StreamTrace steady(double begin, double end, double gap, int tokens = 1) {
  StreamTrace trace;
  for (double at = begin; at < end; at += gap) trace.arrivals.push_back({at, tokens});
  return trace;
}

DecodeFigures measure(const std::vector<StreamTrace>& traces, Window window = {10, 20}, int slices = 10) {
  std::vector<const StreamTrace*> pointers;
  for (const StreamTrace& trace : traces) pointers.push_back(&trace);
  return measure_window(pointers, window, slices);
}

TEST(DecodeWindow, CountsARateExactlyWhateverTheStepsPhase) {
  for (const double phase : {0.0, 0.013, 0.37}) {
    const DecodeFigures figures = measure({steady(5 + phase, 30, 0.7, 3)});
    EXPECT_NEAR(figures.tokens_per_s, 3 / 0.7, 1e-9);
    // Also slices shorter than two steps.
    EXPECT_THAT(figures.slices, Each(DoubleNear(3 / 0.7, 1e-9)));
    EXPECT_NEAR(figures.effective_concurrency, 1, 1e-9);
  }
}

TEST(DecodeWindow, StreamsAddUp) {
  const DecodeFigures figures = measure({steady(1, 30, 0.02), steady(2, 30, 0.025), steady(3, 30, 0.04)});
  EXPECT_NEAR(figures.tokens_per_s, 50 + 40 + 25, 1e-6);
  EXPECT_NEAR(figures.effective_concurrency, 3, 1e-6);
}

TEST(DecodeWindow, AStreamThatNeverBeginsIsNotDecoding) {
  EXPECT_NEAR(measure({steady(1, 30, 0.02), StreamTrace{}}).effective_concurrency, 1, 1e-6);
}

TEST(DecodeWindow, APreemptedStreamIsNotDecoding) {
  StreamTrace broken = steady(1, 12, 0.02);
  for (const TokenArrival& arrival : steady(17, 30, 0.02).arrivals) broken.arrivals.push_back(arrival);
  const DecodeFigures figures = measure({broken});
  EXPECT_NEAR(figures.effective_concurrency, 0.5, 0.01);
  EXPECT_NEAR(figures.tokens_per_s, 25, 0.5);
}

TEST(DecodeWindow, ASlowBeginningIsSeen) {
  StreamTrace cold = steady(1, 12, 0.06);
  for (const TokenArrival& arrival : steady(cold.arrivals.back().at + 0.02, 30, 0.02).arrivals)
    cold.arrivals.push_back(arrival);
  EXPECT_LT(measure({cold}).first_part, 1 - kSteadyWithin);
  EXPECT_NEAR(measure({steady(1, 30, 0.02)}).first_part, 1, 0.01);
}

TEST(DecodeWindow, NothingIsNothing) {
  const DecodeFigures figures = measure({StreamTrace{}});
  EXPECT_EQ(figures.tokens_per_s, 0);
  EXPECT_EQ(figures.effective_concurrency, 0);
  EXPECT_TRUE(figures.gaps_ms.empty());
}

}  // namespace
}  // namespace tessera::bench

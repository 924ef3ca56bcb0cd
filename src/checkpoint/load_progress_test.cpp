#include "checkpoint/load_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tessera {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

// A clock that tests move by hand, and the lines that came out.
struct Stage {
  std::chrono::nanoseconds now{seconds(1000)};
  std::vector<std::string> lines;
  LoadProgress::Options options(std::int64_t total) {
    return {.total_bytes = total,
            .clock = [this] { return now; },
            .sink = [this](std::string_view line) { lines.emplace_back(line); }};
  }
};

TEST(LoadProgress, PrintsRateAndTimeLeftEveryFiveSeconds) {
  Stage stage;
  LoadProgress progress(stage.options(100'000'000'000));
  stage.now += seconds(4);
  progress.add(8'000'000'000);
  EXPECT_TRUE(stage.lines.empty());
  stage.now += seconds(1);
  progress.add(2'000'000'000);
  progress.add(0);
  stage.now += seconds(5);
  progress.add(30'000'000'000);
  EXPECT_THAT(stage.lines, ElementsAre("weights: 10.0 of 100.0 GB (10 %), 2.00 GB/s, 45 s left",
                                       "weights: 40.0 of 100.0 GB (40 %), 4.00 GB/s, 15 s left"));
  EXPECT_DOUBLE_EQ(progress.fraction(), 0.4);
}

TEST(LoadProgress, LongPauseGivesOneLineNotMany) {
  Stage stage;
  LoadProgress progress(stage.options(10));
  stage.now += seconds(60);
  progress.add(1);
  progress.add(1);
  EXPECT_EQ(stage.lines.size(), 1u);
}

TEST(LoadProgress, NothingToLoadIsDone) {
  Stage stage;
  const LoadProgress progress(stage.options(0));
  EXPECT_DOUBLE_EQ(progress.fraction(), 1.0);
  EXPECT_EQ(progress.line(), "weights: 0.0 of 0.0 MB (100 %), 0.00 GB/s");
}

TEST(LoadProgress, FinishSaysTheMeanRate) {
  Stage stage;
  LoadProgress progress(stage.options(6'000'000'000));
  progress.add(6'000'000'000);
  stage.now += seconds(3);
  progress.finish();
  EXPECT_THAT(stage.lines, ElementsAre("weights: 6.0 GB in 3.0 s, 2.00 GB/s"));
}

TEST(LoadProgress, CountsFromManyThreads) {
  LoadProgress progress({.total_bytes = 40'000});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 10'000; ++i) progress.add(1);
      });
    }
  }
  EXPECT_EQ(progress.done_bytes(), 40'000);
}

}  // namespace
}  // namespace tessera

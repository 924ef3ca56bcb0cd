#include "speculative/draft_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "speculative/draft_trial.h"

namespace tessera {
namespace {

TEST(SpeculationCounters, CountAsVllmDoes) {
  SpeculationCounters counters;
  counters.record(3, 2);
  counters.record(3, 0);
  counters.record(2, 2);
  counters.record(0, 0);  // a step without drafts is no draft
  EXPECT_EQ(counters.drafts, 3);
  EXPECT_EQ(counters.draft_tokens, 8);
  EXPECT_EQ(counters.accepted_tokens, 4);
  EXPECT_THAT(counters.accepted_at, testing::ElementsAre(2, 2, 0));
  EXPECT_THAT(counters.verified_at, testing::ElementsAre(3, 3, 2));
  EXPECT_DOUBLE_EQ(counters.mean_length(), 1 + 4.0 / 3);
}

// The step at which the alarm fires, or 0.
int fires_at(int steps, int every) {
  DraftAlarm alarm;
  for (int step = 1; step <= steps; ++step) {
    if (alarm.record(3, every > 0 && step % every == 0 ? 1 : 0)) return step;
  }
  return 0;
}

TEST(DraftAlarm, FiresWithinTwoHundredStepsOfNoise) {
  EXPECT_EQ(fires_at(1000, 0), 128);
  EXPECT_EQ(fires_at(1000, 50), 128) << "one in fifty by chance";
}

TEST(DraftAlarm, IsSilentWhereSomeDraftsStand) { EXPECT_EQ(fires_at(10'000, 5), 0); }

TEST(DraftAlarm, OneBadWindowIsNoAlarmAndItFiresOnce) {
  DraftAlarm alarm;
  int fired = 0;
  for (int window = 0; window < 20; ++window) {
    for (int step = 0; step < 64; ++step) fired += alarm.record(1, window % 2) ? 1 : 0;
  }
  EXPECT_EQ(fired, 0);
  for (int step = 0; step < 1000; ++step) fired += alarm.record(1, 0) ? 1 : 0;
  EXPECT_EQ(fired, 1);
}

TEST(DraftAlarm, StepsWithoutDraftsSayNothing) {
  DraftAlarm alarm;
  for (int step = 0; step < 1000; ++step) EXPECT_FALSE(alarm.record(0, 0));
}

TEST(DraftTrialReport, WarnsOfFewRightGuessesAndOfABetterOrder) {
  EXPECT_FALSE(warning_of({.guessed = 64, .right = 40, .best_other = 39}));
  EXPECT_FALSE(warning_of({.guessed = 64, .right = 40, .best_other = 43})) << "which may be chance";
  EXPECT_THAT(*warning_of({.guessed = 64, .right = 40, .best_other = 45}),
              testing::HasSubstr("guessed 40 of 64 tokens, but 45 from hidden states in another order"));
  EXPECT_THAT(*warning_of({.guessed = 64, .right = 2, .best_other = 0}),
              testing::HasSubstr("guessed 2 of 64"));
  EXPECT_TRUE(warning_of({}));
}

}  // namespace
}  // namespace tessera

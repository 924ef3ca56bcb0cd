#include "engine/step_rows.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tessera {
namespace {

// A prompt's chunk of three tokens behind a decode that may go on at any of `places` positions from 10 on.
StepPlan plan_with_open_decode(std::int32_t open_rows, std::int32_t places) {
  StepPlan plan;
  plan.views.resize(2);
  const std::int32_t tokens = places + 3;
  plan.work = {{.slot = 0,
                .first_token = 0,
                .count = places,
                .open_rows = open_rows,
                .first_position = 10,
                .is_decode = true,
                .samples = true,
                .drafts_wanted = 2},
               {.slot = 1, .first_token = places, .count = 3, .first_position = 0}};
  plan.tokens.assign(static_cast<std::size_t>(tokens), -1);
  for (std::int32_t i = 0; i < tokens; ++i) plan.positions.push_back(i < places ? 10 + i : i - places);
  plan.next_tokens.assign(static_cast<std::size_t>(tokens), -1);
  for (std::int32_t view = 0; view < 2; ++view) {
    for (std::int32_t i = 0; i < tokens; ++i) {
      plan.views[static_cast<std::size_t>(view)].slots.push_back(1000 * view + 100 + i);
      plan.views[static_cast<std::size_t>(view)].visible_rows.push_back(11 + i);
    }
  }
  return plan;
}

StepRows resolved(RowResolver& resolver, const StepPlan& plan, std::int32_t newest, std::int32_t drafts) {
  return resolver.resolve(
      plan, 1, [&](std::int32_t) { return SlotStanding{.newest_position = newest, .drafts = drafts}; });
}

TEST(StepRows, OfAPlanWithoutOpenWorksAreThePlansOwn) {
  StepPlan plan = plan_with_open_decode(0, 1);
  RowResolver resolver(16, 4);
  const StepRows rows = resolved(resolver, plan, 99, 0);
  EXPECT_EQ(rows.work.data(), plan.work.data());
  EXPECT_EQ(rows.slots.data(), plan.views[1].slots.data());
}

TEST(StepRows, BeginWhereTheSequenceStandsAndHoldTheDraftsThatThereAre) {
  const StepPlan plan = plan_with_open_decode(4, 7);
  RowResolver resolver(16, 4);
  for (std::int32_t newest = 10; newest <= 16; ++newest) {
    for (std::int32_t drafts = 0; drafts <= 5; ++drafts) {
      const StepRows rows = resolved(resolver, plan, newest, drafts);
      const std::int32_t count = std::min({4, 1 + drafts, 17 - newest});
      ASSERT_EQ(rows.work.size(), 2U);
      EXPECT_EQ(rows.work[0].count, count) << newest << " " << drafts;
      EXPECT_EQ(rows.work[0].open_rows, 0);
      EXPECT_EQ(rows.work[0].first_position, newest);
      EXPECT_EQ(rows.positions[0], newest);
      EXPECT_EQ(rows.slots[0], 1100 + newest - 10);
      EXPECT_EQ(rows.visible_rows[static_cast<std::size_t>(count) - 1], newest + count);
      EXPECT_EQ(rows.work[1].first_token, count);
      EXPECT_EQ(rows.positions[static_cast<std::size_t>(count)], 0);
      EXPECT_EQ(rows.tokens.size(), static_cast<std::size_t>(count) + 3);
    }
  }
}

// max_tokens were reached, or the newest token was a NaN's: the row that stays is written nowhere.
TEST(StepRows, OfASequenceThatHasEndedAreOneThatSamplesNothing) {
  const StepPlan plan = plan_with_open_decode(4, 7);
  RowResolver resolver(16, 4);
  for (const std::int32_t newest : {9, 17, 20}) {
    const StepRows rows = resolved(resolver, plan, newest, 3);
    EXPECT_EQ(rows.work[0].count, 1) << newest;
    EXPECT_FALSE(rows.work[0].samples);
    EXPECT_EQ(rows.work[0].drafts_wanted, 0);
    EXPECT_EQ(rows.slots[0], -1);
    EXPECT_EQ(rows.slots[1], 1107);
    EXPECT_EQ(rows.positions.size(), 4U);
  }
}

}  // namespace
}  // namespace tessera

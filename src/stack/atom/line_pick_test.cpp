#include "stack/atom/line_pick.h"

#include <gmock/gmock.h>

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using Lines = std::vector<std::string_view>;

const Lines kRemoved = {"x = f(a)\n", "y = 1\n"};
const Lines kAdded = {"_t_enter()\n", "x = f(a, b)\n", "_t_exit()\n"};

TEST(LinePick, NumbersCountFromOneOnEachSide) {
  const auto pick = pick_lines("-1,+2..3", kRemoved, kAdded);
  ASSERT_TRUE(pick.ok());
  EXPECT_THAT(pick->removed, ElementsAre(true, false));
  EXPECT_THAT(pick->added, ElementsAre(false, true, true));
  EXPECT_EQ(pick_text(*pick), "-1,+2..3");
}

TEST(LinePick, ExpressionsMayHoldCommasAndSlashes) {
  const auto pick = pick_lines("+/_t_(enter|exit)/", kRemoved, kAdded);
  ASSERT_TRUE(pick.ok());
  EXPECT_EQ(pick_text(*pick), "+1,+3");
  EXPECT_EQ(pick_text(*pick_lines("+/a, b/", kRemoved, kAdded)), "+2");
  EXPECT_EQ(pick_text(*pick_lines("/x = /", kRemoved, kAdded)), "-1,+2");
  EXPECT_TRUE(pick_lines("/a\\/b/", kRemoved, kAdded)->is_empty());
}

TEST(LinePick, WhatTheAtomDoesNotHaveIsAnError) {
  EXPECT_FALSE(pick_lines("+4", kRemoved, kAdded).ok());
  EXPECT_FALSE(pick_lines("-0", kRemoved, kAdded).ok());
  EXPECT_FALSE(pick_lines("+3..2", kRemoved, kAdded).ok());
  EXPECT_FALSE(pick_lines("2", kRemoved, kAdded).ok());
  EXPECT_FALSE(pick_lines("+/open", kRemoved, kAdded).ok());
  EXPECT_FALSE(pick_lines("+/(/", kRemoved, kAdded).ok());
  EXPECT_FALSE(pick_lines("+99999999999999999999", kRemoved, kAdded).ok());
  EXPECT_FALSE(pick_lines("", kRemoved, kAdded).ok());
}

}  // namespace
}  // namespace tessera::stack

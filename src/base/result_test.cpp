#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tessera {
namespace {

Result<int> parse_digit(char c) {
  if (c < '0' || c > '9') return Error{ErrorKind::kInvalidArgument, "digit", std::string("found '") + c + "'."};
  return c - '0';
}

Result<int> sum(char a, char b) {
  TS_TRY(const int x, parse_digit(a));
  TS_TRY(const int y, parse_digit(b));
  return x + y;
}

Result<void> check_both(char a, char b) {
  TS_TRY(parse_digit(a));
  TS_TRY(parse_digit(b));
  return {};
}

TEST(Result, CarriesTheValue) { EXPECT_EQ(*sum('2', '3'), 5); }

TEST(Result, TryReturnsTheFirstError) {
  const auto failed = sum('2', 'x');
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(failed.error().message(), "digit: found 'x'.");
}

TEST(Result, VoidResultIsSuccessByDefault) {
  EXPECT_TRUE(check_both('1', '2').ok());
  EXPECT_EQ(check_both('a', 'b').error().what, "found 'a'.");
}

TEST(Result, MovesOnlyTypesThrough) {
  Result<std::unique_ptr<int>> made(std::make_unique<int>(7));
  const std::unique_ptr<int> taken = *std::move(made);
  EXPECT_EQ(*taken, 7);
}

TEST(ResultDeath, ReadingTheValueOfAnErrorAbortsWithItsMessage) {
  const Result<int> failed(Error{ErrorKind::kIo, "disk", "is full."});
  EXPECT_DEATH((void)*failed, "disk: is full");
}

TEST(CheckDeath, PrintsNamesAndValues) {
  const int row = 5;
  EXPECT_DEATH(TS_CHECK(row < 3, row), "row < 3 \\(row = 5\\)");
}

}  // namespace
}  // namespace tessera

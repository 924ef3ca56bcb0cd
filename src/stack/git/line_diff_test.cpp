#include "stack/git/line_diff.h"

#include <gmock/gmock.h>

#include <random>
#include <regex>

#include "base/test_seed.h"
#include "stack/git/scratch_repository.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;

TEST(SplitLines, KeepsLineEndsAndTheUnfinishedLastLine) {
  EXPECT_THAT(split_lines("a\r\nb\rc\n\nd"), ElementsAre("a\r\n", "b\rc\n", "\n", "d"));
  EXPECT_TRUE(split_lines("").empty());
}

TEST(LineDiff, CountsFromZeroOnBothSides) {
  EXPECT_THAT(diff_lines("1\n2\n3\n4\n", "1\n2\n3\nx\n4\n"), ElementsAre(LineChange{3, 0, 3, 1}));
  EXPECT_THAT(diff_lines("1\n2\n3\n4\n", "x\n1\n2\n3\n4\n"), ElementsAre(LineChange{0, 0, 0, 1}));
  EXPECT_THAT(diff_lines("1\n2\n3\n4\n", "1\n2\n"), ElementsAre(LineChange{2, 2, 2, 0}));
  EXPECT_THAT(diff_lines("", "1\n2\n"), ElementsAre(LineChange{0, 0, 0, 2}));
}

TEST(LineDiff, ALostFinalNewlineIsAChangeOfThatLine) {
  EXPECT_THAT(diff_lines("a\nb\n", "a\nb"), ElementsAre(LineChange{1, 1, 1, 1}));
  EXPECT_THAT(diff_lines("a\nb", "a\nb"), ElementsAre());
}

TEST(LineDiff, IsGitsOwnDifferenceOnRandomTexts) {
  const ScratchRepository scratch;
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto text = [&](int lines) {
    std::string out;
    for (int i = 0; i < lines; ++i) {
      static constexpr const char* kWords[] = {"", "  return x;", "def f():", "    a = 1", "}", "other"};
      out +=
          std::string(kWords[random() % 6]) + (random() % 3 == 0 ? std::to_string(random() % 9) : "") + "\n";
    }
    return out;
  };
  for (int round = 0; round < 25; ++round) {
    const std::string before = text(40);
    std::string after;
    for (const std::string_view line : split_lines(before)) {
      if (random() % 8 == 0) after += text(static_cast<int>(random() % 4));
      if (random() % 8 != 0) after += line;
    }
    scratch.write("before", before);
    scratch.write("after", after);
    const std::string out = scratch.try_git("diff --no-index -U0 before after").text;
    std::vector<LineChange> expected;
    const std::regex header("@@ -(\\d+)(,(\\d+))? \\+(\\d+)(,(\\d+))? @@");
    for (std::sregex_iterator at(out.begin(), out.end(), header), end; at != end; ++at) {
      const auto number = [&](std::size_t i) { return (*at)[i].matched ? std::stoi((*at)[i]) : 1; };
      const int old_count = number(3);
      const int new_count = number(6);
      expected.push_back({std::stoi((*at)[1]) - (old_count > 0), old_count,
                          std::stoi((*at)[4]) - (new_count > 0), new_count});
    }
    EXPECT_EQ(diff_lines(before, after), expected) << out;
  }
}

}  // namespace
}  // namespace tessera::stack

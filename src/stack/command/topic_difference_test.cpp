// How a topic changed, with `git range-diff` as the judge.
#include "stack/command/topic_difference.h"

#include <gmock/gmock.h>

#include <random>

#include "base/test_seed.h"
#include "stack/git/scratch_repository.h"

namespace tessera::stack {
namespace {

// Lines begin with a blank, so that git takes none of them for the name of a section.
std::string text(std::mt19937& random, int lines) {
  std::string out;
  for (int i = 0; i < lines; ++i)
    out += " " + std::to_string(i) + " word " + std::to_string(random() % 3) + "\n";
  return out;
}

TEST(TopicDifferenceProperty, TheMarkIsTheOneOfGitsRangeDiff) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int equal = 0, changed = 0;
  for (int round = 0; round < 25; ++round) {
    const ScratchRepository git;
    const std::string base = text(random, 40);
    git.write("f", base);
    git.write("g", base);
    git.commit("base");
    // One topic in two versions: the second on a base that moved, or with other words, or both, or neither.
    const bool moves = random() % 2 == 0, rewords = random() % 3 == 0, near = random() % 3 == 0;
    const auto with = [&](const std::string& before, const std::string& line) {
      const std::size_t at = before.find(" 20 word");
      return before.substr(0, at) + line + before.substr(at);
    };
    git.git("checkout -q -b one");
    git.write("f", with(base, " topic's line\n"));
    git.commit("topic");
    git.git("checkout -q -b two main");
    std::string next = moves ? " top\n" + base : base;
    if (near) next = next.insert(next.find(" 18 word"), " near\n");
    git.write("f", next);
    git.commit("upstream");
    git.write("f", with(next, rewords ? " topic's other line\n" : " topic's line\n"));
    git.commit("topic");
    const auto repository = Repository::open(git.path());
    const auto ours =
        compare_versions(*repository, *repository->resolve_commit("one"), *repository->resolve_commit("two"));
    ASSERT_TRUE(ours.ok()) << ours.error().message();
    const std::string theirs = git.git("range-diff -s --creation-factor=1000 one^..one two^..two");
    EXPECT_THAT(theirs, testing::HasSubstr(" " + ours->mark + " ")) << ours->text;
    EXPECT_EQ(ours->text.empty(), ours->mark == "=");
    (ours->mark == "=" ? equal : changed)++;
  }
  EXPECT_GT(equal, 3);
  EXPECT_GT(changed, 3);
}

TEST(TopicDifference, WhatIsNewOrGoneHasNoText) {
  const ScratchRepository git;
  git.write("f", "1\n");
  git.commit("one");
  const auto repository = Repository::open(git.path());
  const Oid tip = *repository->resolve_commit("main");
  EXPECT_EQ(compare_versions(*repository, {}, tip)->mark, ">");
  EXPECT_EQ(compare_versions(*repository, tip, {})->mark, "<");
  EXPECT_EQ(compare_versions(*repository, tip, tip)->mark, "=");
}

}  // namespace
}  // namespace tessera::stack

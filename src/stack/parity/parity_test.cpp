#include "stack/parity/parity.h"

#include <gtest/gtest.h>

#include "stack/object/digest.h"
#include "stack/object/memory_store.h"
#include "stack/object/tree_digest.h"
#include "stack/parity/expectation.h"

namespace tessera::stack {
namespace {

// Two trees and the bytes of both.
struct Pair {
  MemoryStore blobs;
  Tree tree, integration, base;

  TreeEntry entry(const std::string& path, const std::string& bytes, FileMode mode = FileMode::kFile) {
    return {.path = path, .mode = mode, .oid = *blobs.write(bytes), .size = bytes.size()};
  }
  void both(const std::string& path, const std::string& in_tree, const std::string& in_integration) {
    tree.entries.push_back(entry(path, in_tree));
    integration.entries.push_back(entry(path, in_integration));
  }
  ParityInput input() {
    sort_entries(tree.entries);
    sort_entries(integration.entries);
    sort_entries(base.entries);
    return {.tree = tree,
            .integration = integration,
            .tree_blobs = blobs,
            .integration_blobs = blobs,
            .base = &base};
  }
};

ParityClass only(const Parity& parity) {
  EXPECT_EQ(parity.paths.size(), 1U);
  return parity.paths.empty() ? ParityClass::kExact : parity.paths[0].value;
}

TEST(Parity, EqualTreesAreExactAndAccepted) {
  Pair pair;
  pair.both("a", "1", "1");
  const Parity parity = compare_trees(pair.input());
  EXPECT_TRUE(parity.paths.empty());
  EXPECT_EQ(parity.count(ParityClass::kExact), 1);
  EXPECT_TRUE(is_accepted(parity, {}));
  EXPECT_EQ(verdict_line(parity), "1 exact, 0 ignored, 0 dropped, 0 different");
}

TEST(Parity, EachClassOnItsOwn) {
  const auto of = [](const std::string& path, const std::string& a, const std::string& b) {
    Pair pair;
    pair.both(path, a, b);
    return only(compare_trees(pair.input()));
  };
  EXPECT_EQ(of("a.py", "a\r\n", "a\n"), ParityClass::kEol);
  EXPECT_EQ(of("a.py", "a\n\nb\n", "a\nb\n"), ParityClass::kBlank);
  EXPECT_EQ(of("a.py", "a # x\n", "a # y\n"), ParityClass::kComment);
  EXPECT_EQ(of("a.py", "a # noqa\n", "a\n"), ParityClass::kDirective);
  EXPECT_EQ(of("a.py", "a\n", "b\n"), ParityClass::kReal);
}

TEST(Parity, ModeOnlyIsModeAndModeWithABlankIsReal) {
  Pair pair;
  pair.tree.entries = {pair.entry("a.py", "a\n", FileMode::kExecutable)};
  pair.integration.entries = {pair.entry("a.py", "a\n")};
  const Parity parity = compare_trees(pair.input());
  EXPECT_EQ(only(parity), ParityClass::kMode);
  EXPECT_EQ(parity.paths[0].detail, "100755 in the tree, 100644 in the integration");
  pair.integration.entries = {pair.entry("a.py", "a\n\n")};
  EXPECT_EQ(only(compare_trees(pair.input())), ParityClass::kReal);
}

TEST(Parity, SymlinkAgainstFileIsRealEvenWithEqualBytes) {
  Pair pair;
  pair.tree.entries = {pair.entry("a", "b", FileMode::kSymlink)};
  pair.integration.entries = {pair.entry("a", "b")};
  EXPECT_EQ(only(compare_trees(pair.input())), ParityClass::kReal);
}

TEST(Parity, PathsOfOneSideAreMissingOrExtra) {
  Pair pair;
  pair.tree.entries = {pair.entry("a", "1")};
  pair.integration.entries = {pair.entry("b", "1")};
  const Parity parity = compare_trees(pair.input());
  EXPECT_EQ(parity.count(ParityClass::kMissing), 1);
  EXPECT_EQ(parity.count(ParityClass::kExtra), 1);
  EXPECT_FALSE(is_accepted(parity, {ParityClass::kMissing}));
  EXPECT_TRUE(is_accepted(parity, {ParityClass::kMissing, ParityClass::kExtra}));
}

TEST(Parity, DroppedMeansExactlyEqualOnceTheDroppedAtomsAreIn) {
  Pair pair;
  pair.both("a", "with timers", "without");
  pair.both("b", "with timers, edited", "without");
  Tree with_dropped;
  with_dropped.entries = {pair.entry("a", "with timers"), pair.entry("b", "with timers")};
  ParityInput input = pair.input();
  input.planned = &pair.integration;
  input.with_dropped = &with_dropped;
  const Parity parity = compare_trees(input);
  EXPECT_EQ(parity.count(ParityClass::kDropped), 1);
  EXPECT_EQ(parity.count(ParityClass::kReal), 1);
}

TEST(Parity, DroppedFileIsAbsentFromTheIntegration) {
  Pair pair;
  pair.tree.entries = {pair.entry("debug.py", "x")};
  Tree with_dropped;
  with_dropped.entries = {pair.entry("debug.py", "x")};
  ParityInput input = pair.input();
  input.planned = &pair.integration;
  input.with_dropped = &with_dropped;
  EXPECT_EQ(only(compare_trees(input)), ParityClass::kDropped);
}

TEST(Parity, ABranchThatIsNotWhatThePlanComposesIsNeverDropped) {
  Pair pair;
  pair.both("a", "tree", "smuggled");
  Tree as_in_tree;
  as_in_tree.entries = {pair.entry("a", "tree")};
  ParityInput input = pair.input();
  input.planned = &as_in_tree;
  input.with_dropped = &as_in_tree;
  EXPECT_EQ(only(compare_trees(input)), ParityClass::kReal);
}

TEST(Parity, RuleThatHidesAChangedFileOfTheBaseIsNeverAccepted) {
  Pair pair;
  pair.both("gen/a", "2", "1");
  pair.base.entries = {pair.entry("gen/a", "1")};
  ParityInput input = pair.input();
  input.rules = {
      {.label = "ignore gen/**", .matches = [](std::string_view path) { return path.starts_with("gen/"); }}};
  const Parity parity = compare_trees(input);
  EXPECT_EQ(parity.hidden, std::vector<std::string>{"gen/a"});
  EXPECT_EQ(parity.rule_hits, std::vector<std::int64_t>{1});
  EXPECT_FALSE(is_accepted(parity, {}));
  input.rules[0].even_if_changed = true;
  EXPECT_TRUE(is_accepted(compare_trees(input), {}));
}

TEST(Parity, SubsetRuleHidesAbsenceOnly) {
  Pair pair;
  pair.integration.entries = {pair.entry("tests/a", "1")};
  pair.both("tests/b", "1", "2");
  ParityInput input = pair.input();
  input.rules = {
      {.label = "subset", .matches = [](std::string_view) { return true; }, .only_missing_from_tree = true}};
  const Parity parity = compare_trees(input);
  EXPECT_EQ(parity.count(ParityClass::kIgnored), 1);
  EXPECT_EQ(parity.count(ParityClass::kReal), 1);
}

TEST(Parity, MissingObjectMakesOnlyItsPathUnreadable) {
  Pair pair;
  pair.both("a", "1", "2");
  pair.both("picture", "3", "4");
  pair.tree.entries[1].oid = Oid{};
  pair.tree.entries[1].unreadable = "The object is missing.";
  const Parity parity = compare_trees(pair.input());
  EXPECT_EQ(parity.count(ParityClass::kUnreadable), 1);
  EXPECT_EQ(parity.count(ParityClass::kReal), 1);
  EXPECT_EQ(parity.paths[1].detail, "The object is missing.");
}

TEST(Parity, NamesGoThereAndBack) {
  for (int i = 0; i < kParityClasses; ++i) {
    const auto value = static_cast<ParityClass>(i);
    EXPECT_EQ(parity_class_from(name_of(value)), value);
  }
  EXPECT_EQ(parity_class_from("nearly"), std::nullopt);
}

TEST(WithCommas, GroupsThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(4152), "4,152");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
}

TEST(Expectation, FailingOnesNamePathReasonAndTheNearestLine) {
  Pair pair;
  const std::string text = "import os\nseq_lens_cpu = None\nprint('debug')\n";
  pair.tree.entries = {pair.entry("backend.py", text)};
  const auto results =
      check_expectations({{.path = "backend.py", .has = "seq_lens_cpu_upper_bound", .why = "host waits"},
                          {.path = "backend.py", .lacks = "print("},
                          {.path = "backend.py", .has = "import os", .lacks = "_t_enter"},
                          {.path = "backend.py", .sha256 = sha256_digest(text)},
                          {.path = "backend.py", .sha256 = std::string(64, '0')},
                          {.path = "gone.py", .exists = true},
                          {.path = "gone.py", .absent = true},
                          {.path = "backend.py", .absent = true}},
                         pair.tree, pair.blobs);
  EXPECT_FALSE(results[0].holds);
  EXPECT_EQ(results[0].nearest, "2: seq_lens_cpu = None");
  EXPECT_FALSE(results[1].holds);
  EXPECT_EQ(results[1].nearest, "3: print('debug')");
  EXPECT_TRUE(results[2].holds);
  EXPECT_TRUE(results[3].holds);
  EXPECT_FALSE(results[4].holds);
  EXPECT_FALSE(results[5].holds);
  EXPECT_TRUE(results[6].holds);
  EXPECT_FALSE(results[7].holds);
}

}  // namespace
}  // namespace tessera::stack

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/test_seed.h"
#include "stack/compose/composer.h"
#include "stack/compose/scratch_stack.h"
#include "stack/plan/plan_reader.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Lines = std::vector<std::string_view>;

Lines cut(const Lines& removed, const Lines& added, const std::vector<std::int32_t>& removed_by,
          const std::vector<std::int32_t>& added_by, const std::vector<bool>& chosen) {
  const AtomOwner owner{.is_cut = true, .removed = removed_by, .added = added_by};
  return compose_cut(removed, added, owner, BucketSet{chosen, false});
}

TEST(ComposeCut, TimersAroundAFixStandAroundTheOldLineWhenAlone) {
  const Lines removed = {"x = f(a)"};
  const Lines added = {"enter()", "x = f(a, b)", "exit()"};
  EXPECT_THAT(cut(removed, added, {1}, {0, 1, 0}, {true, false}),
              ElementsAre("enter()", "x = f(a)", "exit()"));
  EXPECT_THAT(cut(removed, added, {1}, {0, 1, 0}, {false, true}), ElementsAre("x = f(a, b)"));
  EXPECT_THAT(cut(removed, added, {1}, {0, 1, 0}, {true, true}),
              ElementsAre("enter()", "x = f(a, b)", "exit()"));
  EXPECT_THAT(cut(removed, added, {1}, {0, 1, 0}, {false, false}), ElementsAre("x = f(a)"));
}

TEST(ComposeCut, InterleavedPiecesReplaceTheirOwnLines) {
  const Lines removed = {"1", "2", "3"};
  const Lines added = {"one", "two", "three"};
  EXPECT_THAT(cut(removed, added, {0, 1, 0}, {0, 1, 0}, {false, true}), ElementsAre("1", "two", "3"));
  EXPECT_THAT(cut(removed, added, {0, 1, 0}, {0, 1, 0}, {true, false}), ElementsAre("one", "2", "three"));
}

// A file of random lines, and an edited copy. Few different lines, so that equal atoms and sliding blocks
// occur.
std::string random_text(std::mt19937& random, int most) {
  std::string out;
  const int lines = static_cast<int>(random() % static_cast<unsigned>(most + 1));
  for (int i = 0; i < lines; ++i)
    out += "line " + std::to_string(random() % 12) + (random() % 16 == 0 ? "\r\n" : "\n");
  if (!out.empty() && random() % 8 == 0) out.pop_back();
  return out;
}

std::string edited(std::mt19937& random, const std::string& text) {
  std::string out;
  for (const std::string_view line : split_lines(text)) {
    if (random() % 6 == 0) out += random_text(random, 3);
    if (!out.empty() && out.back() != '\n') out += '\n';
    if (random() % 6 != 0) out += line;
  }
  return out;
}

// Split → integrate is exact, in any partition, with pieces, whatever the order; twice gives the same ids.
TEST(ComposeProperty, AnyPartitionComposesToTheTree) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 12; ++round) {
    ScratchStack scratch;
    std::vector<std::pair<std::string, std::string>> files;
    for (int i = 0; i < 6; ++i)
      files.emplace_back("d" + std::to_string(i % 3) + "/f" + std::to_string(i), random_text(random, 25));
    scratch.write("keep", "kept\n");
    for (const auto& [name, text] : files) scratch.write(name, text);
    scratch.commit_base();
    for (const auto& [name, text] : files) {
      if (random() % 6 == 0)
        scratch.remove(name);
      else
        scratch.write(name, edited(random, text));
    }
    scratch.write("new/file", random_text(random, 10) + "end\n");
    scratch.commit_tree();

    // All atoms into random buckets; one in three text atoms is cut line by line.
    const Workspace listed = scratch.open("");
    const std::size_t count = 1 + random() % 6;
    std::vector<std::vector<std::string>> takes(count);
    std::map<std::string, std::size_t> creates;
    for (const Atom& atom : listed.listing.atoms) {
      const auto removed = listed.listing.removed(atom);
      const auto added = listed.listing.added(atom);
      if (removed.size() + added.size() < 2 || random() % 3 != 0) {
        takes[random() % count].push_back("h:" + atom.id);
        continue;
      }
      std::vector<LinePick> picks(
          count, LinePick{std::vector<bool>(removed.size()), std::vector<bool>(added.size())});
      for (std::size_t i = 0; i < removed.size(); ++i) picks[random() % count].removed[i] = true;
      for (std::size_t i = 0; i < added.size(); ++i) picks[random() % count].added[i] = true;
      for (std::size_t b = 0; b < count; ++b) {
        if (!picks[b].is_empty()) takes[b].push_back("h:" + atom.id + "[" + pick_text(picks[b]) + "]");
      }
    }
    std::string plan;
    for (std::size_t b = 0; b < count; ++b) {
      plan += "[[bucket]]\nname = \"b" + std::to_string(b) + "\"\ntake = [";
      for (const std::string& take : takes[b]) plan += "\"" + take + "\", ";
      plan += "]\n";
    }
    Workspace workspace = scratch.open(plan);
    ASSERT_THAT(workspace.claims.errors, IsEmpty());
    ASSERT_EQ(workspace.claims.ownership.unassigned(), 0);
    const Graph graph = graph_of(workspace);
    if (!graph.errors.empty()) continue;  // a random cycle through created files
    const Composition once = split_and_integrate(workspace, graph);
    ASSERT_TRUE(once.integration_tree);
    EXPECT_EQ(scratch.repository().git("diff " + scratch.tree() + " t/integration"), "") << plan;
    EXPECT_EQ(scratch.repository().git("rev-parse t/integration^{tree}"),
              scratch.repository().git("rev-parse " + scratch.tree() + "^{tree}"));
    EXPECT_EQ(scratch.repository().git("fsck --strict --no-dangling"), "");
    const Composition twice = split_and_integrate(workspace, graph);
    EXPECT_EQ(*once.integration, *twice.integration);

    // Any order of the buckets gives the same blobs, and one bucket after the other reaches the tree.
    const Ground ground = ground_on_base(workspace.listing);
    std::vector<std::int32_t> rank(count);
    std::iota(rank.begin(), rank.end(), 0);
    std::ranges::shuffle(rank, random);
    const Composer composer(workspace.listing, workspace.claims.ownership, workspace.regions, rank, ground);
    const BucketSet all{std::vector<bool>(count, true), false};
    for (std::size_t i = 0; i < workspace.listing.files.size(); ++i) {
      const ComposedFile file = composer.compose(i, all);
      if (file.bytes) {
        EXPECT_EQ(*file.bytes, *workspace.listing.files[i].new_text.bytes);
      }
    }
  }
}

TEST(Compose, TopicsStandOnTheTargetUnlessTheyNeedEachOther) {
  ScratchStack scratch;
  scratch.write("a.py", "import os\n\n\n\ndef a():\n    return 1\n");
  scratch.write("b.py", "def b():\n    return 1\n");
  scratch.commit_base();
  scratch.write("a.py", "import os\n\n\n\ndef fresh_helper():\n    return 7\n\n\ndef a():\n    return 1\n");
  scratch.write("b.py", "def b():\n    return fresh_helper()\n");
  scratch.write("c.txt", "alone\n");
  scratch.commit_tree();
  Workspace workspace = scratch.open(
      "[[bucket]]\nname = \"helper\"\ntake = [\"a.py\"]\n[[bucket]]\nname = \"user\"\ntake = [\"b.py\"]\n"
      "[[bucket]]\nname = \"alone\"\nkind = \"local\"\ntake = [\"c.txt\"]\n");
  const Graph graph = graph_of(workspace);
  ASSERT_THAT(graph.needs[1], ElementsAre(0));
  EXPECT_THAT(graph.edges[0].witness, HasSubstr("fresh_helper"));
  const Composition composition = split_and_integrate(workspace, graph);
  const ScratchRepository& git = scratch.repository();
  EXPECT_EQ(git.git("rev-parse t/helper^"), scratch.base());
  EXPECT_EQ(git.git("rev-parse t/user^"), git.git("rev-parse t/helper"));
  EXPECT_EQ(git.git("rev-parse t/alone^"), scratch.base());
  EXPECT_EQ(git.git("diff --stat t/user^ t/user -- a.py"), "");
  EXPECT_THAT(git.git("log --first-parent --format=%s t/integration"),
              "Merge alone\nMerge user\nMerge helper\nbase");
  EXPECT_THAT(git.git("log -1 --format=%B t/user"), HasSubstr("Tessera-Topic: demo/user"));
}

TEST(Compose, LinearShapeAndLinearisedNeedsMakeLines) {
  ScratchStack scratch;
  for (const char* name : {"a", "b", "c"}) scratch.write(name, "old\n");
  scratch.commit_base();
  for (const char* name : {"a", "b", "c"}) scratch.write(name, "new\n");
  scratch.commit_tree();
  const std::string buckets =
      "[[bucket]]\nname = \"a\"\ntake = [\"a\"]\n[[bucket]]\nname = \"b\"\ntake = [\"b\"]\n[[bucket]]\nname "
      "= \"c\"\n"
      "needs = [\"a\", \"b\"]\ntake = [\"c\"]\n";
  {
    Workspace merged = scratch.open(buckets);
    split_and_integrate(merged, graph_of(merged));
    EXPECT_EQ(scratch.repository().git("log -1 --format=%s t/c^"), "Merge a and b");
  }
  Workspace lined = scratch.open(buckets, "", "shape = \"linear\"\nlinearise = true\n");
  split_and_integrate(lined, graph_of(lined));
  EXPECT_EQ(scratch.repository().git("log --format=%s t/integration"), "c\nb\na\nbase");
  EXPECT_EQ(scratch.repository().git("log --format=%s t/c"), "c\nb\na\nbase");
}

TEST(Compose, DroppedAndUnassignedAtomsStayOut) {
  ScratchStack scratch;
  scratch.write("f", "1\n2\n3\n4\n5\n");
  scratch.commit_base();
  scratch.write("f", "ONE\n2\nTHREE\n4\nFIVE\n");
  scratch.commit_tree();
  Workspace workspace = scratch.open(
      "[[bucket]]\nname = \"keep\"\ntake = [\"f#L1\"]\n[[bucket]]\nname = \"noise\"\nkind = \"drop\"\ntake = "
      "[\"f#L3\"]\n");
  split_and_integrate(workspace, graph_of(workspace));
  EXPECT_EQ(scratch.repository().git("show t/integration:f"), "ONE\n2\n3\n4\n5");
  EXPECT_EQ(workspace.claims.ownership.unassigned(), 1);
  EXPECT_NE(scratch.repository().try_git("rev-parse --verify t/noise").status, 0);
}

// Modes, types, binaries, folders and files that change places, names of every kind.
TEST(Compose, TheTortureCommitComesBackExactly) {
  ScratchStack scratch;
  const ScratchRepository& git = scratch.repository();
  scratch.write("empty-gone", "");
  scratch.write("text-to-empty", "a\n");
  scratch.write("empty-to-text", "");
  scratch.write("lost-newline", "a\nb\n");
  scratch.write("gained-newline", "a\nb");
  scratch.write("no-newline", "a\nb");
  scratch.write("mixed", "a\r\nb\nc\r\n");
  scratch.write("mode-only", "x\n");
  scratch.write("mode-and-text", "x\n");
  scratch.write("file-to-folder", "x\n");
  scratch.write("folder-to-file/in", "x\n");
  scratch.write("pic", std::string("\0one", 4));
  scratch.write("a b\t\"q\".txt", "s\n");
  scratch.write("E=257,[128,128].json", "{}\n");
  scratch.write("caf\xE9", "latin\n");
  scratch.write("dashes", "1\n-- \n2\n");
  scratch.write("cr", "a\rb\nc\n");
  scratch.write("Case", "c\n");
  std::filesystem::create_symlink("one", scratch.repository() / "link");
  std::filesystem::create_symlink("one", scratch.repository() / "link-to-file");
  scratch.commit_base();

  scratch.remove("empty-gone");
  scratch.write("empty-new", "");
  scratch.write("text-to-empty", "");
  scratch.write("empty-to-text", "t\n");
  scratch.write("lost-newline", "a\nb");
  scratch.write("gained-newline", "a\nb\n");
  scratch.write("no-newline", "a\nc");
  scratch.write("mixed", "a\nb\nc\r\nd\n");
  std::filesystem::permissions(git / "mode-only", std::filesystem::perms(0755));
  std::filesystem::permissions(git / "mode-and-text", std::filesystem::perms(0755));
  scratch.write("mode-and-text", "y\n");
  scratch.remove("file-to-folder");
  scratch.write("file-to-folder/in", "y\n");
  scratch.remove("folder-to-file");
  scratch.write("folder-to-file", "y\n");
  scratch.write("pic", std::string("\0two", 4));
  scratch.write("a b\t\"q\".txt", "t\n");
  scratch.write("E=257,[128,128].json", "{1}\n");
  scratch.write("caf\xE9", "latin1\n");
  scratch.write("dashes", "1\n2\n");
  scratch.write("cr", "a\rc\nc\n");
  scratch.remove("Case");
  scratch.write("case", "c\n");
  scratch.remove("link");
  std::filesystem::create_symlink("two", git / "link");
  scratch.remove("link-to-file");
  scratch.write("link-to-file", "now text\n");
  git.git("add -A");
  git.git("update-index --add --cacheinfo 160000," + scratch.base() + ",sub");
  git.git("commit -qm tree");
  const std::string tree = git.git("rev-parse HEAD");
  // commit_tree would drop the submodule entry again, so the commit is used as it is.
  git.git("checkout -q --detach");
  git.git("update-ref refs/heads/torture " + tree);

  Workspace listed = [&] {
    auto file = read_plan(scratch.plan_text(""), "stack.toml");
    EXPECT_TRUE(file.ok());
    auto repository = Repository::open(git.path());
    auto read = repository->read_tree(*oid_from_hex(tree));
    return *make_workspace(PlanFile{scratch.plan_path(), "", *file}, *std::move(repository),
                           *std::move(read));
  }();
  // One bucket for every atom, in reverse; files that must come first are found by structure.
  Plan plan = listed.plan();
  for (std::size_t i = listed.listing.atoms.size(); i-- > 0;) {
    Bucket bucket;
    bucket.name = "b" + std::to_string(i);
    bucket.take.push_back({.kind = ClaimKind::kAtom, .id = listed.listing.atoms[i].id});
    plan.buckets.push_back(bucket);
  }
  auto repository = Repository::open(git.path());
  auto read = repository->read_tree(*oid_from_hex(tree));
  auto workspace =
      make_workspace(PlanFile{scratch.plan_path(), "", plan}, *std::move(repository), *std::move(read));
  ASSERT_TRUE(workspace.ok()) << workspace.error().message();
  const Composition composition = split_and_integrate(*workspace, graph_of(*workspace));
  EXPECT_EQ(git.git("rev-parse t/integration^{tree}"), git.git("rev-parse " + tree + "^{tree}"));
  EXPECT_EQ(git.git("fsck --strict --no-dangling"), "");
  EXPECT_GE(listed.listing.atoms.size(), 25u);
}

TEST(Graph, ACycleIsToldWithItsShortestWitnessAndTheWaysOut) {
  ScratchStack scratch;
  scratch.write("a.py", "def alpha():\n    return 1\n\n\n\nx = 0\n");
  scratch.write("b.py", "def beta():\n    return 2\n\n\n\ny = 0\n");
  scratch.commit_base();
  scratch.write("a.py", "def alpha():\n    return made_in_b\n\n\n\nmade_in_a = 0\n");
  scratch.write("b.py", "def beta():\n    return made_in_a\n\n\n\nmade_in_b = 0\n");
  scratch.commit_tree();
  const std::string buckets =
      "[[bucket]]\nname = \"one\"\ntake = [\"a.py\"]\n[[bucket]]\nname = \"two\"\ntake = [\"b.py\"]\n";
  const Workspace stuck = scratch.open(buckets);
  const Graph graph = graph_of(stuck);
  ASSERT_EQ(graph.errors.size(), 1u);
  EXPECT_THAT(graph.errors[0].message(), AllOf(HasSubstr("made_in_a"), HasSubstr("made_in_b"),
                                               HasSubstr("Three ways out"), HasSubstr("stack.toml:")));
  EXPECT_THAT(graph.order, IsEmpty());
}

TEST(Graph, AnEditGivesTheLowerTopicItsOwnTextAndTheUpperOneTheTrees) {
  ScratchStack scratch;
  scratch.write("a.py", "def alpha():\n    return 1\n\n\n\nx = 0\n");
  scratch.commit_base();
  scratch.write("a.py", "def alpha():\n    return low + high\n\n\n\nx = 1\n");
  scratch.commit_tree();
  const Workspace listed = scratch.open("");
  const std::string id = "h:" + listed.listing.atoms[0].id;
  scratch.folder().write("edits/a.txt", "    return low\n");
  const std::string buckets =
      "[[bucket]]\nname = \"low\"\ntake = [\"a.py#L6\"]\n[[bucket]]\nname = \"high\"\ntake = [\"" + id +
      "\"]\n";
  const std::string edit = "[[edit]]\nbucket = \"low\"\npath = \"a.py\"\ncovers = [\"" + id +
                           "\"]\nfile = \"edits/a.txt\"\nwhy = \"stands alone\"\n";
  Workspace workspace = scratch.open(buckets + edit);
  const Graph graph = graph_of(workspace);
  EXPECT_THAT(graph.needs[1], ElementsAre(0));
  split_and_integrate(workspace, graph);
  EXPECT_EQ(scratch.repository().git("show t/low:a.py"), "def alpha():\n    return low\n\n\n\nx = 1");
  EXPECT_EQ(scratch.repository().git("diff " + scratch.tree() + " t/integration"), "");

  // Without anybody who brings the region to the tree's text, the sum would be wrong: refused.
  const Workspace alone = scratch.open("[[bucket]]\nname = \"low\"\ntake = [\"a.py\"]\n" + edit);
  EXPECT_THAT(graph_of(alone).errors.at(0).message(), HasSubstr("No topic after 'low'"));
}

TEST(Graph, AnUpstreamTopicMayNotNeedALocalOrDroppedOne) {
  ScratchStack scratch;
  scratch.write("a.py", "x = 0\n");
  scratch.write("b.py", "y = 0\n");
  scratch.commit_base();
  scratch.write("a.py", "brand_new = 0\n");
  scratch.write("b.py", "y = brand_new\n");
  scratch.commit_tree();
  for (const char* kind : {"local", "drop"}) {
    const std::string maker =
        "[[bucket]]\nname = \"maker\"\nkind = \"" + std::string(kind) + "\"\ntake = [\"a.py\"]\n";
    const std::string user = "[[bucket]]\nname = \"user\"\ntake = [\"b.py\"]\n";
    const Workspace workspace = scratch.open(maker + user);
    EXPECT_THAT(graph_of(workspace).errors.at(0).message(),
                AllOf(HasSubstr("'user'"), HasSubstr("brand_new")))
        << kind;
    const Workspace refuted =
        scratch.open(maker + user + "refute = [{ use = \"brand_new\", reason = \"upstream has it\" }]\n");
    const Graph graph = graph_of(refuted);
    EXPECT_THAT(graph.errors, IsEmpty()) << kind;
    EXPECT_EQ(graph.refuted.size(), 1u);
  }
}

TEST(Operation, UndoRestoresEveryRefAndThePlan) {
  ScratchStack scratch;
  scratch.write("a", "1\n");
  scratch.commit_base();
  scratch.write("a", "2\n");
  scratch.commit_tree();
  const ScratchRepository& git = scratch.repository();
  const std::string before = git.git("for-each-ref refs/heads");
  Workspace workspace = scratch.open("[[bucket]]\nname = \"one\"\ntake = [\"a\"]\n");
  split_and_integrate(workspace, graph_of(workspace));
  EXPECT_NE(git.git("for-each-ref refs/heads"), before);
  EXPECT_EQ(read_operations(workspace.repository, workspace.plan())->size(), 1u);
  split_and_integrate(workspace, graph_of(workspace));  // nothing changes, so nothing is recorded
  EXPECT_EQ(read_operations(workspace.repository, workspace.plan())->size(), 1u);
  const auto planned =
      run_operation(workspace.repository, workspace.file, {},
                    {.verb = "plan pin", .when = "now", .plan_text = workspace.file.text + "# more\n"});
  ASSERT_TRUE(planned.ok());
  const auto changed = load_plan(scratch.plan_path());
  EXPECT_THAT(changed->text, HasSubstr("# more"));
  ASSERT_TRUE(undo_operation(workspace.repository, *changed, false, false).ok());
  EXPECT_EQ(load_plan(scratch.plan_path())->text, workspace.file.text);
  ASSERT_TRUE(undo_operation(workspace.repository, workspace.file, false, false).ok());
  EXPECT_EQ(git.git("for-each-ref refs/heads"), before);
  EXPECT_EQ(undo_operation(workspace.repository, workspace.file, false, false).error().kind,
            ErrorKind::kNotFound);
}

TEST(Operation, ABranchThatSomebodyMovedIsNeverOverwritten) {
  ScratchStack scratch;
  scratch.write("a", "1\n");
  scratch.write("b", "1\n");
  scratch.commit_base();
  scratch.write("a", "2\n");
  scratch.write("b", "2\n");
  scratch.commit_tree();
  const ScratchRepository& git = scratch.repository();
  Workspace workspace =
      scratch.open("[[bucket]]\nname = \"a\"\ntake = [\"a\"]\n[[bucket]]\nname = \"b\"\ntake = [\"b\"]\n");
  const Composition composition = split_and_integrate(workspace, graph_of(workspace));
  git.git("branch -f t/a " + scratch.tree());
  const std::string before = git.git("for-each-ref");
  const std::vector<std::pair<std::string, std::optional<Oid>>> wanted = {
      {"refs/heads/t/b", *oid_from_hex(scratch.base())}, {"refs/heads/t/a", composition.topics[0].commit}};
  const auto refused = run_operation(workspace.repository, workspace.file, wanted,
                                     {.verb = "split", .when = "now", .plan_text = {}});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message(), AllOf(HasSubstr("refs/heads/t/a"), HasSubstr("--force")));
  EXPECT_EQ(git.git("for-each-ref"), before);
  EXPECT_TRUE(run_operation(workspace.repository, workspace.file, wanted,
                            {.verb = "split", .when = "now", .force = true, .plan_text = {}})
                  .ok());
}

}  // namespace
}  // namespace tessera::stack

#include <gmock/gmock.h>

#include "stack/compose/scratch_stack.h"
#include "stack/suggest/cancelled.h"
#include "stack/suggest/code_owners.h"
#include "stack/suggest/line_history.h"
#include "stack/suggest/suggestion.h"

namespace tessera::stack {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(LineHistory, FollowsAuthorsAndRemovers) {
  LineHistory history("1\n2\n3\n");
  history.step("1\n2\n3\n", "1\nA\n3\n", 0);  // 0 replaces line 2
  history.step("1\nA\n3\n", "0\n1\nA\n", 1);  // 1 adds a first line, removes line 3
  EXPECT_EQ(history.size(), 3u);
  EXPECT_EQ(history.author_of(0), 1);
  EXPECT_EQ(history.author_of(1), kNobody);
  EXPECT_EQ(history.author_of(2), 0);
  EXPECT_EQ(history.remover_of(0), kNobody);
  EXPECT_EQ(history.remover_of(1), 0);
  EXPECT_EQ(history.remover_of(2), 1);
}

TEST(Slug, MakesABranchNameOfATitle) {
  EXPECT_EQ(slug_of("[Kernel][Core] Fix the FP8 path (#123)"), "fix-the-fp8-path");
  EXPECT_EQ(slug_of("???"), "topic");
}

TEST(SuggestFromCommits, IsCompleteAndExactAndNamesWhatOwnsNothing) {
  ScratchStack scratch;
  const ScratchRepository& git = scratch.repository();
  scratch.write("f.py", "1\n2\n3\n4\n5\n6\n7\n8\n");
  scratch.commit_base();
  scratch.write("f.py", "1\ntwo\n3\n4\n5\n6\n7\n");
  scratch.write("launch.sh", "go\n");
  git.commit("First: change two, drop eight");
  scratch.write("f.py", "1\ntwo\nmixed\n3\n4\nextra\n5\n6\n7\n");
  git.commit("Second: add lines");
  scratch.write("f.py", "1\ntwo\nmixed\n3\n4\n5\n6\n7\n");
  git.commit("Third: takes the extra line back");
  scratch.write("f.py", "1\ntwo\nmixed!\n3\n4\n5\n6\n7\n");
  git.commit("fixup! Second: add lines");
  scratch.commit_tree();

  Workspace workspace = scratch.open("");
  const auto found =
      suggest_from_commits(workspace, *oid_from_hex(scratch.base()), *oid_from_hex(scratch.tree()));
  ASSERT_TRUE(found.ok());
  std::vector<std::string> names;
  for (const ProposedBucket& bucket : found->buckets) names.push_back(bucket.name);
  EXPECT_THAT(names, ElementsAre("first-change-two-drop-eight", "second-add-lines"));
  EXPECT_EQ(found->mixed_atoms, 1);
  EXPECT_THAT(found->notes, Contains(HasSubstr("Third: takes the extra line back")));

  Workspace planned = scratch.open(to_toml(*found));
  EXPECT_THAT(planned.claims.errors, IsEmpty());
  EXPECT_EQ(planned.claims.ownership.unassigned(), 0);
  split_and_integrate(planned, graph_of(planned));
  EXPECT_EQ(git.git("diff " + scratch.tree() + " t/integration"), "");
  EXPECT_EQ(git.git("show t/first-change-two-drop-eight:f.py"), "1\ntwo\n3\n4\n5\n6\n7");
}

TEST(SuggestByFiles, TestsFollowWhatTheyTestAndScriptsStayLocal) {
  ScratchStack scratch;
  scratch.write("pkg/engine.py", "a = 1\n");
  scratch.write("pkg/user.py", "b = 1\n");
  scratch.commit_base();
  scratch.write("pkg/engine.py", "a = 1\n\n\ndef brand_new_helper():\n    pass\n" + std::string(30, '\n'));
  scratch.write("pkg/user.py", "b = brand_new_helper()\n");
  scratch.write("tests/test_engine.py", "assert True\n");
  scratch.write("run_server.sh", "go\n");
  scratch.write("engine.py.bak", "old\n");
  scratch.write("odd#name:x", "y\n");
  scratch.commit_tree();
  const Workspace workspace = scratch.open("");
  const Suggestion found = suggest_by_files(workspace);
  const Workspace planned = scratch.open(to_toml(found));
  EXPECT_THAT(planned.claims.errors, IsEmpty());
  EXPECT_EQ(planned.claims.ownership.unassigned(), 0);
  const auto bucket_of = [&](const std::string& path) {
    const FileChange* file = planned.listing.find_file(path);
    return planned.plan().buckets[static_cast<std::size_t>(
        planned.claims.ownership.atoms[static_cast<std::size_t>(file->first_atom)].whole)];
  };
  EXPECT_EQ(bucket_of("tests/test_engine.py").name, bucket_of("pkg/engine.py").name);
  EXPECT_EQ(bucket_of("pkg/user.py").name, bucket_of("pkg/engine.py").name);
  EXPECT_EQ(bucket_of("run_server.sh").kind, BucketKind::kLocal);
  EXPECT_EQ(bucket_of("engine.py.bak").kind, BucketKind::kLocal);
  EXPECT_EQ(bucket_of("pkg/engine.py").kind, BucketKind::kUpstream);
}

TEST(CodeOwners, TheLastPatternDecides) {
  const CodeOwners owners(
      "# people\n*        @all\n/csrc/   @kernels @gpu\n*.md\ntests/models @models  # ours\n{bad}/csrc @x\n");
  EXPECT_EQ(owners.of("setup.py"), "@all");
  EXPECT_EQ(owners.of("csrc/a/b.cu"), "@kernels @gpu");
  EXPECT_EQ(owners.of("docs/csrc/x"), "@all");
  EXPECT_EQ(owners.of("csrc/README.md"), "");  // freed
  EXPECT_EQ(owners.of("tests/models/test_a.py"), "@models");
  EXPECT_EQ(CodeOwners("").of("a"), "");
}

TEST(Cancelled, ARevertAndATakenBackAdditionAreNamed) {
  ScratchRepository git;
  git.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n");
  const std::string base = git.commit("base");
  git.write("f", "1\n4\n5\n6\n7\n8\n");  // removes 2 and 3
  git.write("only", "a\nb\n");
  const std::string first = git.commit("First");
  git.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");  // puts both back, adds 9
  git.commit("Second");
  git.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n");  // takes 9 back
  git.remove("only");
  const std::string last = git.commit("Third");
  auto repository = Repository::open(git.path());
  const auto commits = first_parents(*repository, *oid_from_hex(base), *oid_from_hex(last));
  const auto pairs = find_cancelled(*repository, *oid_from_hex(base), *commits);
  ASSERT_TRUE(pairs.ok());
  ASSERT_EQ(pairs->size(), 3u);
  std::string all;
  for (const CancelledPair& pair : *pairs) all += sentence_of(pair, *commits) + "\n";
  EXPECT_THAT(all, HasSubstr("restores 2 lines that " + first.substr(0, 12) + " removed: Second"));
  EXPECT_THAT(all, HasSubstr("removes 2 lines that " + first.substr(0, 12) + " added: Third"));
  EXPECT_THAT(all, HasSubstr("removes 1 line that "));
}

TEST(SuggestByFiles, AMovedFileIsOneBucketAndReviewersAreNamed) {
  ScratchStack scratch;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "value_" + std::to_string(i) + " = " + std::to_string(i) + "\n";
  scratch.write("CODEOWNERS", "pkg/ @ada\nother/ @bob\n");
  scratch.write("pkg/old_place.py", text);
  scratch.write("other/big.py", "x = 1\n");
  scratch.write("other/small.py", "y = 1\n");
  scratch.commit_base();
  scratch.remove("pkg/old_place.py");
  scratch.write("pkg/new_place.py", "import os\n" + text);
  scratch.write("other/big.py", text);
  scratch.write("other/small.py", "y = 2\n");
  scratch.commit_tree();
  const Suggestion found = suggest_by_files(scratch.open(""));
  const std::string toml = to_toml(found);
  ASSERT_EQ(found.buckets.size(), 2u) << toml;
  EXPECT_THAT(toml, HasSubstr("moved to pkg/new_place.py"));
  EXPECT_THAT(toml, HasSubstr("reviewed by @ada"));
  EXPECT_THAT(toml, HasSubstr("reviewed by @bob, as other/big.py"));
}

}  // namespace
}  // namespace tessera::stack

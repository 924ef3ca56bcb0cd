#include <gmock/gmock.h>

#include "stack/compose/scratch_stack.h"
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

}  // namespace
}  // namespace tessera::stack

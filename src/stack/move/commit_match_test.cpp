#include "stack/move/commit_match.h"

#include <gmock/gmock.h>

#include "stack/git/repository.h"
#include "stack/git/scratch_repository.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;

TEST(CommitMatch, FindsWhatWasMergedByWhatItDoesAndByWhatItSays) {
  ScratchRepository git;
  git.write("a", numbered(1, 30));
  git.write("b", numbered(1, 30));
  const std::string base = git.commit("base");
  const auto change = [&](const std::string& file, const std::string& from, const std::string& to) {
    const std::string all = git.git("show HEAD:" + file) + "\n";
    std::string text = all;
    text.replace(text.find(from), from.size(), to);
    git.write(file, text);
  };
  git.git("checkout -q -b fork");
  change("a", "line 5\n", "five\n");
  git.commit("Say five in words (#7)");
  change("b", "line 9\n", "nine\n");
  git.commit("Say nine in words as well (#8)");
  change("b", "line 20\n", "twenty\n");
  git.commit("[Core] Say twenty in words\n\nChange-Id: I0123456789abcdef");
  change("a", "line 28\n", "never merged\n");
  git.commit("Local only");
  git.git("checkout -q main");
  change("a", "line 1\n", "new top\nline 1\n");
  git.commit("Unrelated upstream work here");
  change("a", "line 5\n", "five\n");
  const std::string equal = git.commit("Say five in words (#7)");
  change("b", "line 9\n", "nine!\n");
  const std::string changed = git.commit("Say nine in words, loudly (#8)");
  change("b", "line 20\n", "20\n");
  const std::string by_id = git.commit("Numbers stay digits\n\nChange-Id: I0123456789abcdef");
  auto repository = Repository::open(git.path());
  const auto changes =
      changes_of_commits(*repository, *oid_from_hex(base), *repository->resolve_commit("fork"));
  ASSERT_TRUE(changes.ok());
  ASSERT_EQ(changes->size(), 5u);  // four, and all of them as one
  const auto found =
      match_commits(*repository, *changes, *oid_from_hex(base), *repository->resolve_commit("main"));
  ASSERT_TRUE(found.ok());
  std::vector<std::string> said;
  for (const CommitMatch& match : *found)
    said.push_back(std::to_string(match.change) + " " + std::string(name_of(match.evidence)) + " " +
                   to_hex(match.upstream));
  EXPECT_THAT(said, ElementsAre("0 patch-id " + equal, "0 number " + equal, "0 subject " + equal,
                                "1 number " + changed, "2 change-id " + by_id));
}

TEST(CommitMatch, ASquashOfAllIsFoundAsOne) {
  ScratchRepository git;
  git.write("a", numbered(1, 30));
  const std::string base = git.commit("base");
  git.git("checkout -q -b fork");
  git.write("a", "one\n" + numbered(1, 30));
  git.commit("first half");
  git.write("a", "one\n" + numbered(1, 30) + "two\n");
  git.commit("second half");
  git.git("checkout -q main");
  git.write("a", "one\n" + numbered(1, 30) + "two\n");
  const std::string squash = git.commit("Everything at once (#1)");
  auto repository = Repository::open(git.path());
  const auto changes =
      changes_of_commits(*repository, *oid_from_hex(base), *repository->resolve_commit("fork"));
  const auto found =
      match_commits(*repository, *changes, *oid_from_hex(base), *repository->resolve_commit("main"));
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->at(0).change, 2u);
  EXPECT_EQ(to_hex(found->at(0).upstream), squash);
}

}  // namespace
}  // namespace tessera::stack

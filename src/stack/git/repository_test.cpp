#include "stack/git/repository.h"

#include <gtest/gtest.h>

#include "stack/git/scratch_repository.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

Repository open(const ScratchRepository& scratch) {
  auto opened = Repository::open(scratch.path());
  EXPECT_TRUE(opened.ok());
  return *std::move(opened);
}

TEST(Repository, ReadsTheTreeThatGitWrote) {
  const ScratchRepository scratch;
  scratch.write("a/b/c.txt", "one\n");
  scratch.write("a.txt", "two\n");
  scratch.write("a/run.sh", "#!/bin/sh\n");
  scratch.git("add -A");
  scratch.git("update-index --chmod=+x a/run.sh");
  scratch.git("commit -qm first");
  const Repository repository = open(scratch);
  const auto head = repository.resolve_commit("HEAD");
  ASSERT_TRUE(head.ok());
  const auto tree = repository.read_tree(*head);
  ASSERT_TRUE(tree.ok());
  ASSERT_EQ(tree->entries.size(), 3u);
  EXPECT_EQ(tree->entries[0].path, "a.txt");
  EXPECT_EQ(tree->entries[1].path, "a/b/c.txt");
  EXPECT_EQ(tree->entries[2].mode, FileMode::kExecutable);
  EXPECT_EQ(tree->entries[1].size, 4u);
  const auto below = repository.read_tree(*head, "a/b");
  ASSERT_TRUE(below.ok());
  EXPECT_EQ(below->entries[0].path, "c.txt");
  EXPECT_EQ(repository.read_tree(*head, "nowhere").error().kind, ErrorKind::kNotFound);
}

TEST(Repository, WritesTheTreeThatGitWouldWrite) {
  const ScratchRepository scratch;
  scratch.write("a/b/c.txt", "one\n");
  scratch.write("d/e.txt", "old\n");
  scratch.write("file", "was a file\n");
  scratch.write("folder/x", "was in a folder\n");
  const std::string before = scratch.commit("before");
  scratch.remove("a");
  scratch.remove("file");
  scratch.remove("folder");
  scratch.write("file/y", "now a folder\n");
  scratch.write("folder", "now a file\n");
  scratch.write("d/e.txt", "new\n");
  const std::string after = scratch.commit("after");

  Repository repository = open(scratch);
  const auto base = repository.read_commit(*oid_from_hex(before));
  const auto wanted = repository.read_commit(*oid_from_hex(after));
  ASSERT_TRUE(base.ok() && wanted.ok());
  const auto written = repository.write_tree(
      base->tree, {{.path = "a/b/c.txt", .mode = std::nullopt, .oid = {}},
                   {.path = "file", .mode = std::nullopt, .oid = {}},
                   {.path = "folder/x", .mode = std::nullopt, .oid = {}},
                   {.path = "file/y", .mode = FileMode::kFile, .oid = blob_oid("now a folder\n")},
                   {.path = "folder", .mode = FileMode::kFile, .oid = blob_oid("now a file\n")},
                   {.path = "d/e.txt", .mode = FileMode::kFile, .oid = blob_oid("new\n")}});
  ASSERT_TRUE(written.ok()) << written.error().message();
  EXPECT_EQ(to_hex(*written), to_hex(wanted->tree));
  EXPECT_EQ(scratch.git("fsck --strict"), "");
}

TEST(Repository, ABlobInPiecesIsTheBlobThatGitWouldWrite) {
  const ScratchRepository git;
  auto repository = Repository::open(git.path());
  ASSERT_TRUE(repository.ok());
  const std::string piece(70'001, 'p');
  int left = 5;
  const auto next = [&]() -> Result<std::string_view> { return left-- > 0 ? piece : std::string_view(); };
  const auto id = repository->write_pieces(5 * piece.size(), next);
  ASSERT_TRUE(id.ok()) << id.error().message();
  EXPECT_EQ(git.git("cat-file -s " + to_hex(*id)), std::to_string(5 * piece.size()));
  EXPECT_EQ(git.try_git("fsck --strict").status, 0);
  left = 4;  // fewer than announced
  EXPECT_FALSE(repository->write_pieces(5 * piece.size(), next).ok());
}

TEST(Repository, ATreeWithoutFilesIsGitsEmptyTree) {
  const ScratchRepository scratch;
  scratch.write("only", "x");
  const std::string head = scratch.commit("one");
  Repository repository = open(scratch);
  const auto commit = repository.read_commit(*oid_from_hex(head));
  const auto written =
      repository.write_tree(commit->tree, {{.path = "only", .mode = std::nullopt, .oid = {}}});
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(to_hex(*written), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
}

TEST(Repository, CommitsHaveTheIdThatGitGives) {
  const ScratchRepository scratch;
  scratch.write("f", "1\n");
  const std::string head = scratch.commit("a subject");
  Repository repository = open(scratch);
  auto commit = repository.read_commit(*oid_from_hex(head));
  ASSERT_TRUE(commit.ok());
  EXPECT_EQ(commit->author.name, "Ada");
  const auto again = repository.write_commit(*commit);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(to_hex(*again), head);
  commit->author.name = "Eve\nparent 0";
  EXPECT_EQ(repository.write_commit(*commit).error().kind, ErrorKind::kInvalidArgument);
}

TEST(Repository, RefsChangeAllOrNone) {
  const ScratchRepository scratch;
  scratch.write("f", "1\n");
  const Oid one = *oid_from_hex(scratch.commit("one"));
  scratch.write("f", "2\n");
  const Oid two = *oid_from_hex(scratch.commit("two"));
  Repository repository = open(scratch);
  ASSERT_TRUE(repository.change_refs({{"refs/heads/x/a", {}, one}, {"refs/heads/x/b", {}, one}}).ok());
  // b is not where this caller believes it to be, so a stays too.
  const auto refused = repository.change_refs({{"refs/heads/x/a", one, two}, {"refs/heads/x/b", two, one}});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(repository.read_ref("refs/heads/x/a"), one);
  ASSERT_TRUE(repository.change_refs({{"refs/heads/x/a", one, two}, {"refs/heads/x/b", one, {}}}).ok());
  EXPECT_EQ(repository.read_ref("refs/heads/x/a"), two);
  EXPECT_EQ(repository.read_ref("refs/heads/x/b"), std::nullopt);
  EXPECT_EQ(repository.list_refs("refs/heads/x/").size(), 1u);
  EXPECT_EQ(scratch.git("rev-parse x/a"), to_hex(two));
  // The locks are gone.
  EXPECT_EQ(scratch.try_git("branch x/c").status, 0);
}

TEST(Repository, AMissingBlobIsMarkedAndDoesNotStopTheRest) {
  const ScratchRepository scratch;
  scratch.write("gone.bin", "picture");
  scratch.write("here.txt", "text\n");
  const std::string head = scratch.commit("one");
  const std::string blob = to_hex(blob_oid("picture"));
  std::filesystem::remove(scratch.folder().path() / ".git/objects" / blob.substr(0, 2) / blob.substr(2));
  Repository repository = open(scratch);
  const auto tree = repository.read_tree(*oid_from_hex(head));
  ASSERT_TRUE(tree.ok());
  EXPECT_TRUE(tree->find("gone.bin")->unreadable.has_value());
  EXPECT_FALSE(tree->find("here.txt")->unreadable.has_value());
  const auto written =
      repository.write_tree(repository.read_commit(*oid_from_hex(head))->tree,
                            {{.path = "new", .mode = FileMode::kFile, .oid = blob_oid("text\n")}});
  EXPECT_TRUE(written.ok());
}

TEST(Repository, FormatsThatItCannotReadAreNamedWithTheWayOut) {
  const ScratchRepository scratch;
  scratch.git("config core.repositoryformatversion 1");
  scratch.git("config extensions.partialclone origin");
  const Libgit2ForgetsMatches allowed;
  const auto refused = Repository::open(scratch.path());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported) << refused.error().message();
  EXPECT_NE(refused.error().what.find("git "), std::string::npos);
  EXPECT_EQ(Repository::open(scratch / "no/such/folder").error().kind, ErrorKind::kNotFound);
}

TEST(Repository, OpeningRunsNothingFromTheConfig) {
  const ScratchRepository scratch;
  scratch.write("f", "1\n");
  const std::string head = scratch.commit("one");
  const std::string mark = (scratch.folder().path() / "ran").string();
  for (const char* key :
       {"core.fsmonitor", "core.sshCommand", "core.pager", "core.hooksPath", "filter.x.clean"}) {
    scratch.git(std::string("config ") + key + " 'touch " + mark + "'");
  }
  Repository repository = open(scratch);
  ASSERT_TRUE(repository.read_tree(*oid_from_hex(head)).ok());
  ASSERT_TRUE(repository.change_refs({{"refs/heads/y", {}, *oid_from_hex(head)}}).ok());
  EXPECT_FALSE(std::filesystem::exists(mark));
}

}  // namespace
}  // namespace tessera::stack

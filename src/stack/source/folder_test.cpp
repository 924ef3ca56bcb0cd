// Folders and other repositories as sources, against what git stores of the same files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "stack/git/scratch_repository.h"
#include "stack/object/memory_store.h"
#include "stack/source/read_for_test.h"

namespace tessera::stack {
namespace {

using Lines = std::vector<std::string>;

TEST(Folder, EqualsWhatGitStoresAndSkipsGitsOwnFiles) {
  const ScratchRepository repository;
  repository.write("a.txt", "crlf\r\nraw\n");
  repository.write("sub/run", "x");
  std::filesystem::permissions(repository / "sub/run", std::filesystem::perms::owner_all);
  std::filesystem::create_symlink("a.txt", repository / "link");
  repository.write(".gitattributes", "* text eol=lf\n");
  repository.git("config core.autocrlf false");
  repository.git("-c core.attributesFile=/dev/null add -A");
  const SourceTree from_folder = read("dir:" + repository.path());
  EXPECT_EQ(listing(from_folder.tree), (Lines{".gitattributes", "a.txt", "link l", "sub/run x"}));
  // Raw bytes: the id is that of hash-object without filters, not that of the index, which normalised the CR
  // away.
  EXPECT_EQ(to_hex(from_folder.tree.find("a.txt")->oid), repository.git("hash-object --no-filters a.txt"));
  EXPECT_EQ(from_folder.tree.notes, Lines{".git was skipped; it is git's own and no part of the tree."});
}

TEST(Folder, SameTreeAsGitAndTar) {
  const ScratchRepository repository;
  repository.write("x/y", "1\n");
  repository.write("z", "2\n");
  std::filesystem::create_symlink("nowhere", repository / "dangling");
  repository.commit("all");
  const std::string out = repository / ".git/out.tar";
  ASSERT_EQ(run_command("cd " + repository.path() + " && tar --exclude=.git -czf " + out + " .").status, 0);
  const std::string digest = read("git:" + repository.path() + "@HEAD").tree.digest;
  EXPECT_EQ(read("dir:" + repository.path()).tree.digest, digest);
  EXPECT_EQ(read("tar:" + out).tree.digest, digest);
}

TEST(Folder, UnreadableFileIsMarkedNotFatal) {
  if (::geteuid() == 0) {
    // Root reads everything; a fifo under a file's name is what it cannot read as a file.
    const ScratchFolder folder;
    folder.write("a", "1");
    ASSERT_EQ(run_command("mkfifo " + (folder / "pipe")).status, 0);
    const SourceTree tree = read("dir:" + folder.path().string());
    EXPECT_EQ(listing(tree.tree), Lines{"a"});
    EXPECT_EQ(tree.tree.notes, Lines{"1 devices, fifos and sockets were ignored."});
    return;
  }
  const ScratchFolder folder;
  folder.write("secret", "1");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  const SourceTree tree = read("dir:" + folder.path().string());
  ASSERT_EQ(tree.tree.entries.size(), 1U);
  EXPECT_TRUE(tree.tree.entries[0].unreadable.has_value());
}

TEST(Git, BytesOfAnotherDatabaseAreCopiedWhenWanted) {
  const ScratchRepository repository;
  repository.write("pkg/a", "1\n");
  repository.write("b", "2\n");
  repository.commit("c");
  MemoryStore blobs;
  const SourceTree tree = read("git:" + repository.path() + "@main:pkg", {.blobs = &blobs});
  EXPECT_EQ(listing(tree.tree), Lines{"a"});
  EXPECT_EQ(*blobs.read(tree.tree.entries[0].oid), "1\n");
  EXPECT_EQ(blobs.size(), 1U);
}

}  // namespace
}  // namespace tessera::stack

#include <gtest/gtest.h>

#include "stack/object/digest.h"
#include "stack/object/memory_store.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {
namespace {

TEST(Digest, BlobIdIsGitsOwn) {
  EXPECT_EQ(to_hex(blob_oid("")), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(to_hex(blob_oid("hello\n")), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(Digest, PiecesGiveTheSameIdAsTheWhole) {
  Hasher hasher = blob_hasher(6);
  hasher.add("hel");
  hasher.add("");
  hasher.add("lo\n");
  EXPECT_EQ(hasher.oid(), blob_oid("hello\n"));
}

TEST(Digest, HexGoesThereAndBackAndRefusesTheRest) {
  const Oid oid = blob_oid("x");
  EXPECT_EQ(oid_from_hex(to_hex(oid)), oid);
  EXPECT_EQ(oid_from_hex("ce01"), std::nullopt);
  EXPECT_EQ(oid_from_hex(std::string(39, '0') + "g"), std::nullopt);
}

TEST(Digest, Sha256OfNothing) {
  EXPECT_EQ(sha256_digest(""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Tree, FindsByExactPathOnly) {
  Tree tree;
  tree.entries = {{.path = "a"}, {.path = "a/b"}, {.path = "ab"}};
  EXPECT_EQ(tree.find("a/b"), &tree.entries[1]);
  EXPECT_EQ(tree.find("a/"), nullptr);
  EXPECT_EQ(tree.find("zz"), nullptr);
}

TEST(Tree, SortingKeepsTheLastOfEqualPaths) {
  std::vector<TreeEntry> entries = {{.path = "b", .size = 1}, {.path = "a"}, {.path = "b", .size = 2}};
  sort_entries(entries);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1].size, 2U);
}

TEST(Tree, DigestSeesModePathAndId) {
  const TreeEntry plain{.path = "a", .oid = blob_oid("x")};
  TreeEntry executable = plain, renamed = plain, edited = plain;
  executable.mode = FileMode::kExecutable;
  renamed.path = "b";
  edited.oid = blob_oid("y");
  const auto of = [](const TreeEntry& entry) { return tree_digest(std::span(&entry, 1)); };
  EXPECT_EQ(of(plain), sha256_digest(std::string("100644 a") + '\0' + to_hex(plain.oid) + "\n"));
  EXPECT_NE(of(plain), of(executable));
  EXPECT_NE(of(plain), of(renamed));
  EXPECT_NE(of(plain), of(edited));
}

TEST(MemoryStore, GivesBackWhatWasWritten) {
  MemoryStore store;
  const auto oid = store.write("text");
  ASSERT_TRUE(oid);
  EXPECT_TRUE(store.contains(*oid));
  EXPECT_EQ(*store.read(*oid), "text");
  EXPECT_EQ(store.read(Oid{}).error().kind, ErrorKind::kNotFound);
}

TEST(Printable, EscapesWhatDrivesATerminalAndKeepsWords) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("na\xc3\xafve"), "na\xc3\xafve");
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");           // a C1 control in valid UTF-8
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate is no character
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // overlong slash
}

TEST(Printable, PercentEncodingIsReversibleByEye) {
  EXPECT_EQ(percent_encoded("docs/\xe9 %.txt"), "docs/%E9%20%25.txt");
}

TEST(NextCommand, WordsComeOutOfAShellAsTheyWentIn) {
  EXPECT_EQ(shell_quoted("dir:/opt/app@v1.2"), "dir:/opt/app@v1.2");
  EXPECT_EQ(shell_quoted("--base=v1"), "--base=v1");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("A=b"), "'A=b'");
  EXPECT_EQ(shell_quoted("~"), "'~'");
  EXPECT_EQ(shell_quoted("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(NextCommand, IsTakenOffAsItWasPutOn) {
  const std::string message = with_next("It is gone; look for it.", "git fsck && git fetch");
  EXPECT_EQ(message, "It is gone; look for it; next: git fsck && git fetch");
  const SentenceAndNext halves = split_next(message);
  EXPECT_EQ(halves.sentence, "It is gone; look for it.");
  EXPECT_EQ(halves.next, "git fsck && git fetch");
  EXPECT_EQ(split_next("No way on.").next, "");
}

}  // namespace
}  // namespace tessera::stack

#include "stack/object_id.h"

#include <gtest/gtest.h>

#include "stack/digest.h"

namespace tessera::stack {
namespace {

TEST(ObjectId, IsWhatGitGivesToBytes) {
  EXPECT_EQ(to_hex(blob_id("")), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(to_hex(blob_id("hello\n")), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(ObjectId, ReadsItsOwnTextAndRefusesAnythingElse) {
  const Oid oid = blob_id("x");
  EXPECT_EQ(parse_oid(to_hex(oid)), oid);
  EXPECT_FALSE(parse_oid("e69de29"));
  EXPECT_FALSE(parse_oid("e69de29bb2d1d6434b8b29ae775ad8c2e48c539g"));
  EXPECT_FALSE(parse_oid(to_hex(oid) + "0"));
}

TEST(TreeDigest, CoversModePathAndId) {
  Tree tree;
  tree.entries = {{.path = "b", .oid = blob_id("1")}, {.path = "a", .oid = blob_id("2")}};
  finish_tree(tree);
  EXPECT_EQ(tree.entries[0].path, "a");
  EXPECT_EQ(tree.digest.size(), 7 + 64);
  Tree other = tree;
  other.entries[0].mode = FileMode::kExecutable;
  EXPECT_NE(tree_digest(other.entries), tree.digest);
  EXPECT_EQ(tree.find("b")->oid, blob_id("1"));
  EXPECT_EQ(tree.find("c"), nullptr);
}

TEST(Digest, MatchesThePublishedTestVector) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace tessera::stack

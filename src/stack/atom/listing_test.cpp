#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "base/test_seed.h"
#include "stack/atom/atom.h"
#include "stack/object/digest.h"
#include "stack/object/memory_store.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using Files = std::map<std::string, std::string>;

Tree tree_of(const Files& files, BlobStore& blobs) {
  Tree tree;
  for (const auto& [path, bytes] : files) {
    tree.entries.push_back({.path = path, .oid = *blobs.write(bytes), .size = bytes.size()});
  }
  sort_entries(tree.entries);
  return tree;
}

Listing list(const Files& base, const Files& tree, const ListingOptions& options = {}) {
  MemoryStore blobs;
  const Tree before = tree_of(base, blobs);
  auto listing = make_listing(before, tree_of(tree, blobs), blobs, options);
  EXPECT_TRUE(listing.ok());
  return *std::move(listing);
}

std::vector<std::string> ids(const Listing& listing) {
  std::vector<std::string> out;
  for (const Atom& atom : listing.atoms) out.push_back(atom.id);
  return out;
}

std::vector<std::string> kinds(const Listing& listing) {
  std::vector<std::string> out;
  for (const Atom& atom : listing.atoms)
    out.push_back(listing.file_of(atom).path + " " + std::string(name_of(atom.kind)));
  return out;
}

TEST(Listing, EqualTreesHaveNoAtoms) { EXPECT_TRUE(list({{"a", "1\n"}}, {{"a", "1\n"}}).atoms.empty()); }

TEST(Listing, EveryDifferenceHasItsKind) {
  const Listing listing =
      list({{"changed", "1\n2\n3\n"}, {"deleted", "x\n"}, {"emptied", "x\n"}, {"pic", std::string("\0a", 2)}},
           {{"changed", "1\nB\n3\n"},
            {"created", "x\n"},
            {"emptied", ""},
            {"empty", ""},
            {"pic", std::string("\0b", 2)}});
  EXPECT_THAT(kinds(listing), ElementsAre("changed text", "created create", "created text", "deleted delete",
                                          "emptied text", "empty create", "pic binary"));
  EXPECT_THAT(listing.removed(listing.atoms[0]), ElementsAre("2\n"));
  EXPECT_THAT(listing.added(listing.atoms[0]), ElementsAre("B\n"));
}

TEST(Listing, ModesAndTypesAreAtoms) {
  MemoryStore blobs;
  const Oid one = *blobs.write("1\n");
  const Oid two = *blobs.write("2\n");
  Tree base;
  base.entries = {{.path = "both", .oid = one},
                  {.path = "link", .mode = FileMode::kSymlink, .oid = one},
                  {.path = "mode", .oid = one},
                  {.path = "sub", .mode = FileMode::kGitlink, .oid = one, .unreadable = "elsewhere"}};
  Tree tree;
  tree.entries = {{.path = "both", .mode = FileMode::kExecutable, .oid = two},
                  {.path = "link", .mode = FileMode::kFile, .oid = one},
                  {.path = "mode", .mode = FileMode::kExecutable, .oid = one},
                  {.path = "sub", .mode = FileMode::kGitlink, .oid = two, .unreadable = "elsewhere"}};
  const auto listing = make_listing(base, tree, blobs);
  ASSERT_TRUE(listing.ok());
  EXPECT_THAT(kinds(*listing), ElementsAre("both mode", "both text", "link type", "mode mode", "sub binary"));
}

TEST(Listing, UnreadablePathsAreNamedAndTheRestIsListed) {
  MemoryStore blobs;
  Tree base;
  base.entries = {{.path = "lost", .oid = blob_oid("old"), .unreadable = "blob missing"},
                  {.path = "same", .oid = blob_oid("s"), .unreadable = "blob missing"}};
  Tree tree;
  tree.entries = {{.path = "lost", .oid = *blobs.write("new")},
                  {.path = "other", .oid = *blobs.write("o\n")},
                  {.path = "same", .oid = blob_oid("s"), .unreadable = "blob missing"}};
  const auto listing = make_listing(base, tree, blobs);
  ASSERT_TRUE(listing.ok());
  ASSERT_EQ(listing->unreadable.size(), 1u);
  EXPECT_EQ(listing->unreadable[0].path, "lost");
  EXPECT_THAT(kinds(*listing), ElementsAre("other create", "other text"));
}

TEST(AtomId, SurvivesLinesInsertedAbove) {
  const Listing before = list({{"f", "a\nb\nc\nd\n"}}, {{"f", "a\nb\nX\nd\n"}});
  const Listing after = list({{"f", "new\nnew2\na\nb\nc\nd\n"}}, {{"f", "new\nnew2\na\nb\nX\nd\n"}});
  EXPECT_EQ(ids(before), ids(after));
}

TEST(AtomId, DoesNotDependOnWhereASlidingBlockIsDrawn) {
  // One more "\n}\n" among equals can be drawn in several places; above it stands different text in each
  // base.
  MemoryStore blobs;
  const Files base = {{"f", "p\n}\n\nq\n}\n\nr\n"}};
  const Files tree = {{"f", "p\n}\n\nq\n}\n\nq\n}\n\nr\n"}};
  const Listing myers = list(base, tree, {.algorithm = DiffAlgorithm::kMyers});
  const Listing patience = list(base, tree, {.algorithm = DiffAlgorithm::kPatience});
  EXPECT_EQ(ids(myers), ids(patience));
}

TEST(AtomId, EqualAtomsAreNumberedInFileOrder) {
  const Listing listing = list({{"f", "1\n2\n3\n4\n5\n"}}, {{"f", "1\nx\n2\n3\nx\n4\n5\n"}});
  ASSERT_EQ(listing.atoms.size(), 2u);
  EXPECT_EQ(listing.atoms[0].ordinal, 0);
  EXPECT_EQ(listing.atoms[1].ordinal, 1);
  EXPECT_NE(listing.atoms[0].id, listing.atoms[1].id);
}

TEST(AtomId, IsAFixedFunctionOfItsParts) {
  // The format is a promise to every plan that was ever written: sha256("atom1\0f\0text\0b\n\0B\n\0" "0").
  const Listing listing = list({{"f", "a\nb\nc\n"}}, {{"f", "a\nB\nc\n"}});
  Hasher hasher(Hasher::Kind::kSha256);
  hasher.add(
      std::string_view("atom1\0f\0text\0b\n\0B\n\0"
                       "0",
                       20));
  EXPECT_EQ(listing.atoms[0].id, hasher.hex().substr(0, 16));
}

TEST(AtomId, SurvivesRandomEditsElsewhere) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    // Lines are unique, so no edit elsewhere can be mistaken for one of the atoms.
    std::string base, tree, base2, tree2;
    std::size_t extra = 0;
    for (int line = 0; line < 60; ++line) {
      const std::string text = "line " + std::to_string(line) + "\n";
      const bool is_changed = random() % 6 == 0 && line % 2 == 1;
      const std::string now = is_changed ? "changed " + std::to_string(line) + "\n" : text;
      if (line % 2 == 0 && random() % 5 == 0) {
        const std::string more = "upstream " + std::to_string(extra++) + "\n";
        base2 += more;
        tree2 += more;
      }
      base += text, base2 += text, tree += now, tree2 += now;
    }
    EXPECT_EQ(ids(list({{"f", base}}, {{"f", tree}})), ids(list({{"f", base2}}, {{"f", tree2}})));
  }
}

TEST(Listing, ShortIdsAreUniqueAndAtLeastFourDigits) {
  std::string base, tree;
  for (int i = 0; i < 600; ++i) {
    base += std::to_string(i) + "\nkept\n";
    tree += std::to_string(i) + " new\nkept\n";
  }
  const Listing listing = list({{"f", base}}, {{"f", tree}});
  ASSERT_EQ(listing.atoms.size(), 600u);
  std::set<std::string> seen;
  for (const Atom& atom : listing.atoms) {
    const std::string id = listing.short_id(atom);
    EXPECT_GE(id.size(), 4u);
    EXPECT_EQ(listing.find(id).size(), 1u);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 600u);
}

TEST(Listing, AttributesOfTheBaseDecideWhatIsText) {
  const Files base = {
      {".gitattributes", "*.dat binary\n/raw/** -diff\n"}, {"x.dat", "1\n"}, {"raw/y", "1\n"}, {"z", "1\n"}};
  Files tree = base;
  for (const char* path : {"x.dat", "raw/y", "z"}) tree[path] = "2\n";
  EXPECT_THAT(kinds(list(base, tree)), ElementsAre("raw/y binary", "x.dat binary", "z text"));
}

TEST(Listing, FilesOverTheLimitAreMovedWhole) {
  EXPECT_THAT(kinds(list({{"f", "123456789\n"}}, {{"f", "12\n"}}, {.text_limit = 5})),
              ElementsAre("f binary"));
}

TEST(Listing, MarksReindentedBlocks) {
  const Listing listing =
      list({{"f.py", "a\nx = 1\ny = 2\nb\n"}}, {{"f.py", "a\n    x = 1\n    y = 2\nb\n"}});
  ASSERT_EQ(listing.atoms.size(), 1u);
  EXPECT_TRUE(listing.atoms[0].is_reindent);
}

TEST(Listing, FingerprintChangesWithTreeAndOptions) {
  const Listing one = list({{"f", "a\n"}}, {{"f", "b\n"}});
  EXPECT_EQ(one.fingerprint, list({{"f", "a\n"}}, {{"f", "b\n"}}).fingerprint);
  EXPECT_NE(one.fingerprint, list({{"f", "a\n"}, {"g", ""}}, {{"f", "b\n"}, {"g", ""}}).fingerprint);
  EXPECT_NE(one.fingerprint,
            list({{"f", "a\n"}}, {{"f", "b\n"}}, {.algorithm = DiffAlgorithm::kMinimal}).fingerprint);
}

}  // namespace
}  // namespace tessera::stack

#include "stack/source/layer_stack.h"

#include <gtest/gtest.h>

#include "stack/source/test_archive.h"

namespace tessera::stack {
namespace {

LayerListing read(const std::string& tar) {
  MemoryBytes bytes(tar);
  auto listing = read_layer(bytes, {}, {}, "test");
  EXPECT_TRUE(listing) << listing.error().message();
  return *std::move(listing);
}

// Merges layers given as tar items; gives "path=content" for files, "path->target" for symlinks, "path/" for
// folders.
std::vector<std::string> merged(const std::vector<std::vector<TarItem>>& layers) {
  std::vector<LayerListing> listings;
  std::map<Oid, std::string> contents;
  for (const auto& items : layers) {
    listings.push_back(read(make_tar(items)));
    for (const TarItem& item : items) contents[blob_oid(item.bytes)] = item.bytes;
  }
  std::vector<const LayerListing*> pointers;
  for (const LayerListing& listing : listings) pointers.push_back(&listing);
  std::vector<std::string> out;
  for (const auto& [path, entry] : merge_layers(pointers).paths) {
    if (entry.kind == TarKind::kFolder) {
      out.push_back(path + "/");
    } else if (entry.kind == TarKind::kSymlink) {
      out.push_back(path + "->" + entry.target);
    } else if (!entry.unreadable.empty()) {
      out.push_back(path + "?");
    } else {
      const auto& content = listings[static_cast<std::size_t>(entry.place.layer)].entries[entry.place.entry];
      out.push_back(path + "=" + contents.at(content.oid));
    }
  }
  return out;
}

using Lines = std::vector<std::string>;

TEST(Layers, WhiteoutHidesTheLowerFileOnly) {
  EXPECT_EQ(merged({{file("a/x", "1"), file("a/y", "2")}, {file("a/.wh.x", "")}}), (Lines{"a/y=2"}));
}

TEST(Layers, WhiteoutBeforeOrAfterTheNewFileOfItsNameKeepsTheNewOne) {
  EXPECT_EQ(merged({{file("x", "old")}, {file(".wh.x", ""), file("x", "new")}}), (Lines{"x=new"}));
  EXPECT_EQ(merged({{file("x", "old")}, {file("x", "new"), file(".wh.x", "")}}), (Lines{"x=new"}));
}

TEST(Layers, WhiteoutOfAFolderHidesAllBelowButNotItsNeighbours) {
  EXPECT_EQ(merged({{file("a/b/c", "1"), file("a-b", "2"), file("a.b", "3"), file("a0", "4")},
                    {file(".wh.a", "")}}),
            (Lines{"a-b=2", "a.b=3", "a0=4"}));
}

TEST(Layers, OpaqueMarkAsTheLastEntrySparesItsOwnLayer) {
  EXPECT_EQ(merged({{file("d/old", "1"), file("d/sub/old", "2")},
                    {folder("d"), file("d/new", "3"), file("d/.wh..wh..opq", "")}}),
            (Lines{"d/", "d/new=3"}));
}

TEST(Layers, OpaqueMarkAtTheRootClearsEverythingBelow) {
  EXPECT_EQ(merged({{file("a", "1"), file("b/c", "2")}, {file(".wh..wh..opq", ""), file("d", "3")}}),
            (Lines{"d=3"}));
}

TEST(Layers, WhiteoutThatIsAHardLinkIsAWhiteout) {
  EXPECT_EQ(merged({{file("a", "1"), file("b", "2")}, {file(".wh.a", ""), hardlink(".wh.b", ".wh.a")}}),
            (Lines{}));
}

TEST(Layers, FileOverFolderRemovesTheFolder) {
  EXPECT_EQ(merged({{file("a/x", "1"), file("a/y/z", "2")}, {file("a", "3")}}), (Lines{"a=3"}));
}

TEST(Layers, SymlinkOverFolderRemovesTheFolder) {
  EXPECT_EQ(merged({{file("a/x", "1")}, {symlink("a", "b")}}), (Lines{"a->b"}));
}

TEST(Layers, FolderOverFolderKeepsItsChildren) {
  EXPECT_EQ(merged({{folder("a"), file("a/x", "1")}, {folder("a/")}}), (Lines{"a/", "a/x=1"}));
}

TEST(Layers, FolderOverFileReplacesIt) {
  EXPECT_EQ(merged({{file("a", "1")}, {folder("a"), file("a/x", "2")}}), (Lines{"a/", "a/x=2"}));
}

TEST(Layers, EntryBelowASymlinkReplacesItByAFolder) {
  EXPECT_EQ(merged({{file("real/x", "1"), symlink("a", "real")}, {file("a/y", "2")}}),
            (Lines{"a/", "a/y=2", "real/x=1"}));
}

TEST(Layers, OpaqueClearingNeverGoesThroughASymlink) {
  EXPECT_EQ(merged({{file("real/x", "1"), symlink("a", "real")}, {file("a/.wh..wh..opq", "")}}),
            (Lines{"a->real", "real/x=1"}));
}

TEST(Layers, HardLinkKeepsItsBytesWhenTheTargetIsReplacedLater) {
  EXPECT_EQ(merged({{file("a", "first")}, {hardlink("b", "a")}, {file("a", "second")}}),
            (Lines{"a=second", "b=first"}));
}

TEST(Layers, HardLinkInsideOneLayerSeesTheEntryBeforeIt) {
  EXPECT_EQ(merged({{file("a", "lower")}, {file("a", "upper"), hardlink("./b", "/a")}}),
            (Lines{"a=upper", "b=upper"}));
}

TEST(Layers, HardLinkToNowhereIsUnreadable) { EXPECT_EQ(merged({{hardlink("b", "gone")}}), (Lines{"b?"})); }

TEST(Layers, HardLinkToASymlinkIsThatSymlink) {
  EXPECT_EQ(merged({{symlink("s", "there"), hardlink("t", "s")}}), (Lines{"s->there", "t->there"}));
}

TEST(Layers, LastOfDuplicatesWins) {
  EXPECT_EQ(merged({{file("a", "1"), file("./a", "2")}}), (Lines{"a=2"}));
}

TEST(Layers, AufsRelicsHideNothing) {
  EXPECT_EQ(merged({{file("wh.plnk", "1")}, {folder(".wh..wh.plnk"), file(".wh..wh.aufs", "")}}),
            (Lines{"wh.plnk=1"}));
}

TEST(Layers, NamesAreOneWhateverTheirSpelling) {
  EXPECT_EQ(merged({{file("./a//b", "1")}, {file("/a/./b", "2")}}), (Lines{"a/b=2"}));
}

TEST(Layer, RejectsDotDotAndTheEmptyWhiteoutWithANote) {
  const LayerListing listing = read(make_tar({file("../../etc/x", "1"), file(".wh.", ""), file(".wh...", ""),
                                              file("ok", "2"), hardlink("h", "../../etc/shadow")}));
  ASSERT_EQ(listing.entries.size(), 1U);
  EXPECT_EQ(listing.entries[0].path, "ok");
  EXPECT_TRUE(listing.whiteouts.empty());
  EXPECT_EQ(listing.notes.size(), 4U);
}

TEST(Layer, LongNamesAndBytesThatAreNotUtf8Survive) {
  const std::string name = "docs/\xe9/" + std::string(300, 'n');
  const LayerListing listing = read(make_tar({file(name, "x")}));
  ASSERT_EQ(listing.entries.size(), 1U);
  EXPECT_EQ(listing.entries[0].path, name);
}

TEST(Layer, DevicesAreCountedNotKept) {
  const LayerListing listing = read(make_tar({{.name = "dev/null", .type = '3'}}));
  EXPECT_TRUE(listing.entries.empty());
  EXPECT_EQ(listing.notes, Lines{"1 devices, fifos and sockets were ignored."});
}

TEST(Layer, EmptyStreamAndEmptyTarHoldNothing) {
  EXPECT_TRUE(read("").entries.empty());
  EXPECT_TRUE(read(std::string(1024, '\0')).entries.empty());
}

TEST(Layer, DiffIdCoversWhatStandsBehindTheEndMarker) {
  const std::string tar = make_tar({file("a", "1")}) + "trailing";
  EXPECT_EQ(read(tar).diff_id, sha256_digest(tar));
}

TEST(Layer, TruncatedEntryIsCorrupt) {
  const std::string tar = make_tar({{.name = "a", .bytes = "short", .lie_about_size = 100000}}, false);
  MemoryBytes bytes(tar);
  const auto listing = read_layer(bytes, {}, {}, "layer 1");
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(listing.error().where, "layer 1");
}

TEST(Layer, EntryLimitHolds) {
  std::vector<TarItem> items;
  for (int i = 0; i < 20; ++i) items.push_back(file("f" + std::to_string(i), ""));
  const std::string tar = make_tar(items);
  MemoryBytes bytes(tar);
  EXPECT_EQ(read_layer(bytes, {}, {.entries = 10}, "layer").error().kind, ErrorKind::kTooLarge);
}

MergedTree tree_of(const std::vector<TarItem>& items, LayerListing& listing) {
  listing = read(make_tar(items));
  return merge_layers({&listing});
}

TEST(Resolve, FollowsRelativeAndAbsoluteLinksInsideTheRoot) {
  LayerListing listing;
  const MergedTree tree = tree_of(
      {file("data/v1/x", "1"), symlink("data/now", "v1"), symlink("opt/app", "/data/now"), file("opt/z", "")},
      listing);
  EXPECT_EQ(*resolve_inside(tree, "/opt/app"), "data/v1");
  EXPECT_EQ(*resolve_inside(tree, "opt/app/x"), "data/v1/x");
  EXPECT_EQ(*resolve_inside(tree, "/"), "");
}

TEST(Resolve, DotDotStopsAtTheRoot) {
  LayerListing listing;
  const MergedTree tree = tree_of({file("etc/x", "1"), symlink("opt/up", "../../../../etc")}, listing);
  EXPECT_EQ(*resolve_inside(tree, "/opt/up"), "etc");
  EXPECT_EQ(*resolve_inside(tree, "../../etc/x"), "etc/x");
}

TEST(Resolve, LoopsAndAbsentPathsAreNamed) {
  LayerListing listing;
  const MergedTree tree = tree_of({symlink("a", "b"), symlink("b", "a")}, listing);
  EXPECT_EQ(resolve_inside(tree, "a/x").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(resolve_inside(tree, "c").error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace tessera::stack

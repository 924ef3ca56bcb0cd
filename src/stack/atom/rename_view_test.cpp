#include "stack/atom/rename_view.h"

#include <gmock/gmock.h>

#include <map>

#include "stack/object/memory_store.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Files = std::map<std::string, std::string>;

std::vector<std::string> moves(const Files& base, const Files& tree, std::int32_t least = 60) {
  MemoryStore blobs;
  const auto tree_of = [&](const Files& files) {
    Tree out;
    for (const auto& [path, bytes] : files)
      out.entries.push_back({.path = path, .oid = *blobs.write(bytes), .size = bytes.size()});
    sort_entries(out.entries);
    return out;
  };
  const auto listing = make_listing(tree_of(base), tree_of(tree), blobs);
  std::vector<std::string> out;
  for (const MovedText& moved : find_moves(*listing, blobs, least))
    out.push_back(sentence_of(moved, *listing) + (moved.is_rename ? "" : " (into it)"));
  return out;
}

std::string numbered(int from, int to) {
  std::string out;
  for (int i = from; i <= to; ++i) out += "line " + std::to_string(i) + "\n\n";
  return out;
}

TEST(RenameView, AFileUnderAnotherNameIsARename) {
  EXPECT_THAT(moves({{"a", numbered(1, 10)}}, {{"b", numbered(1, 10)}}),
              ElementsAre("a -> b, 100 percent of its lines"));
  EXPECT_THAT(moves({{"a", numbered(1, 10)}}, {{"b", numbered(3, 30)}}),
              ElementsAre("a -> b, 80 percent of its lines"));
  EXPECT_THAT(moves({{"a", numbered(1, 10)}}, {{"b", numbered(6, 30)}}), IsEmpty());
}

TEST(RenameView, TextThatReturnsInAnotherFileIsAMove) {
  EXPECT_THAT(
      moves({{"gone.py", numbered(1, 10)}, {"layer.py", "top\n"}}, {{"layer.py", "top\n" + numbered(1, 9)}}),
      ElementsAre("gone.py -> layer.py, 90 percent of its lines (into it)"));
  // A new file is the likelier home when both have everything.
  EXPECT_THAT(moves({{"gone.py", numbered(1, 10)}, {"layer.py", "top\n"}},
                    {{"layer.py", "top\n" + numbered(1, 10)}, {"made.py", "x\n" + numbered(1, 10)}}),
              ElementsAre("gone.py -> made.py, 100 percent of its lines"));
}

TEST(RenameView, BinaryFilesMoveOnlyWhole) {
  const std::string picture("\0\1\2\n", 4);
  EXPECT_THAT(moves({{"a.png", picture}}, {{"b.png", picture}}),
              ElementsAre("a.png -> b.png, 100 percent of its lines"));
  EXPECT_THAT(moves({{"a.png", picture}}, {{"b.png", picture + "x"}}), IsEmpty());
  EXPECT_THAT(moves({{"empty", ""}}, {{"other", "text\n"}}), IsEmpty());
}

TEST(RenameView, LinesCountAsOftenAsBothSidesHaveThem) {
  EXPECT_THAT(moves({{"a", "x\nx\nx\nx\n"}}, {{"b", "x\nother\n"}}), IsEmpty());
}

}  // namespace
}  // namespace tessera::stack

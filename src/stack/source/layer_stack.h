// The rules by which the layers of an image, bottom to top, become one tree. Pure: listings in, paths out; no
// bytes are touched.
//
// An entry replaces what stood at its path. A file over a folder removes the folder's contents; a folder over
// a folder changes nothing that a tree records. Whiteouts and opaque marks hide paths of lower layers only,
// wherever they stand in their own layer. An entry's path is taken literally: where a lower layer has a
// symlink and this entry needs a folder, a folder replaces the symlink. A hard link takes its target's bytes
// as of that moment.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/source/layer.h"

namespace tessera::stack {

// Where the bytes of a file stand: the entry `entry` of layer `layer` (bottom is 0).
struct ContentPlace {
  std::int32_t layer = -1;
  std::size_t entry = 0;
  friend auto operator<=>(const ContentPlace&, const ContentPlace&) = default;
};

struct MergedEntry {
  TarKind kind = TarKind::kFile;  // never kHardlink or kOther
  bool executable = false;
  std::int32_t layer = -1;   // that last wrote this path; not necessarily the one that holds its bytes
  ContentPlace place{};      // of a file
  std::string target{};      // of a symlink
  std::string unreadable{};  // why its bytes cannot be had; empty when they can
};

struct MergedTree {
  std::map<std::string, MergedEntry> paths{};  // folders included where an entry named them
  std::vector<std::string> notes{};            // one full sentence each
};

MergedTree merge_layers(const std::vector<const LayerListing*>& layers);

// Follows symlinks inside the image root, never out of it: ".." stops at the root, absolute targets start
// there. Returns the clean path of a folder or file that exists.
Result<std::string> resolve_inside(const MergedTree& tree, std::string_view path);

}  // namespace tessera::stack

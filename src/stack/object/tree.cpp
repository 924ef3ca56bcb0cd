#include "stack/tree.h"

#include <algorithm>
#include <cstdio>

#include "stack/object/digest.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {

const TreeEntry* Tree::find(std::string_view path) const {
  const auto found =
      std::lower_bound(entries.begin(), entries.end(), path,
                       [](const TreeEntry& entry, std::string_view key) { return entry.path < key; });
  return found != entries.end() && found->path == path ? &*found : nullptr;
}

void sort_entries(std::vector<TreeEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TreeEntry& a, const TreeEntry& b) { return a.path < b.path; });
  // std::unique keeps the first of equals; walking backwards makes that the last one written.
  const auto kept = std::unique(entries.rbegin(), entries.rend(),
                                [](const TreeEntry& a, const TreeEntry& b) { return a.path == b.path; });
  entries.erase(entries.begin(), kept.base());
}

std::string mode_text(FileMode mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%06o", static_cast<unsigned>(mode));
  return text;
}

std::string tree_digest(std::span<const TreeEntry> entries) {
  Hasher hasher(Hasher::Kind::kSha256);
  for (const TreeEntry& entry : entries) {
    hasher.add(mode_text(entry.mode));
    hasher.add(" ");
    hasher.add(entry.path);
    hasher.add(std::string_view("\0", 1));
    hasher.add(to_hex(entry.oid));
    hasher.add("\n");
  }
  return "sha256:" + hasher.hex();
}

}  // namespace tessera::stack

#include "stack/tree.h"

#include <algorithm>

namespace tessera::stack {

const TreeEntry* Tree::find(std::string_view path) const {
  const auto at = std::ranges::lower_bound(entries, path, {},
                                           [](const TreeEntry& e) { return std::string_view(e.path); });
  return at != entries.end() && at->path == path ? &*at : nullptr;
}

}  // namespace tessera::stack

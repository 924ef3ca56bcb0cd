// The digest of a whole tree: SHA-256 over "mode SP path NUL blob-id LF" of all entries, in order.
#pragma once

#include <span>
#include <string>

#include "stack/tree.h"

namespace tessera::stack {

// Sorts by path bytes; of equal paths the last one stays.
void sort_entries(std::vector<TreeEntry>& entries);
// Mode as six octal digits, id as 40 hex digits. An unreadable entry counts with its id, zero when unknown.
std::string tree_digest(std::span<const TreeEntry> entries);
// Git's six octal digits, e.g. "100644".
std::string mode_text(FileMode mode);

}  // namespace tessera::stack

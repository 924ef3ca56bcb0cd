// Renames and moves as a reading of a listing: which deleted file's text stands elsewhere in the tree. Atoms
// know nothing of it; reports and suggestions do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/atom/atom.h"

namespace tessera::stack {

struct MovedText {
  std::int32_t from = 0;     // index into Listing::files: deleted
  std::int32_t to = 0;       // created, or changed
  std::int32_t percent = 0;  // of the deleted file's lines, blank ones left out, that `to` adds
  bool is_rename = false;    // `to` was created
};

// At most one place a deleted file: where most of its lines went, at least `least_percent`. By path.
std::vector<MovedText> find_moves(const Listing& listing, const BlobStore& blobs, std::int32_t least_percent);

// "old.py -> new.py, 83 percent of its lines"
std::string sentence_of(const MovedText& moved, const Listing& listing);

}  // namespace tessera::stack

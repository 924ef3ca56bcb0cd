// What a composition stands on: for each differing path, its state at the target commit, and where its atoms
// are placed there. On the base itself every atom stands where it was found; move/ makes grounds for other
// commits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stack/atom/atom.h"

namespace tessera::stack {

enum class PlacementKind {
  kSame,        // the file is as in the base
  kMapped,      // its lines and their neighbours are unchanged, elsewhere in the file
  kDone,        // the target has it already
  kMerged,      // the neighbourhood changed, a three-way merge was clean: to be reviewed
  kRemembered,  // a stored resolution was used
  kConflict,    // none of these
};
std::string_view name_of(PlacementKind kind);

// Lines [begin, begin + count) of the target's text become `lines`.
struct Patch {
  std::int32_t begin = 0;
  std::int32_t count = 0;
  std::vector<std::string> lines;
};

struct Placement {
  PlacementKind kind = PlacementKind::kSame;
  std::int32_t begin = 0;                // kSame, kMapped: its old lines begin here in the target's text
  std::vector<Patch> adapted{};          // kMerged, kRemembered: what it does there instead
  std::vector<std::int32_t> together{};  // kMerged, kRemembered: atoms that were adapted as one; the first
                                         // holds what all of them do
  std::string conflict{};                // kConflict: "c:…", and for kRemembered the one that was resolved
};

struct FileGround {
  std::string path;                     // at the target; differs from the atom's after a rename upstream
  std::optional<FileState> state;       // absent there
  const Text* base_text = nullptr;      // its lines when they are the base's; borrowed
  std::optional<Text> own_text{};       // its lines when they are others
  std::vector<Placement> placements{};  // [atoms of the file]

  // Null when the path has no lines there, or keeps what it has.
  const Text* text() const { return own_text ? &*own_text : base_text; }
};

struct Ground {
  std::vector<FileGround> files;  // [Listing::files]
};

// Everything where it was found. Borrows the listing's texts.
Ground ground_on_base(const Listing& listing);

}  // namespace tessera::stack

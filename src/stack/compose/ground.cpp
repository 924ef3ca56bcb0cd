#include "stack/compose/ground.h"

namespace tessera::stack {

std::string_view name_of(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kSame:
      return "same";
    case PlacementKind::kMapped:
      return "mapped";
    case PlacementKind::kDone:
      return "done";
    case PlacementKind::kMerged:
      return "merged";
    case PlacementKind::kRemembered:
      return "remembered";
    case PlacementKind::kConflict:
      return "conflict";
  }
  return "unknown";
}

Ground ground_on_base(const Listing& listing) {
  Ground ground;
  for (const FileChange& file : listing.files) {
    FileGround here{
        .path = file.path, .state = file.before, .base_text = file.is_text ? &file.old_text : nullptr};
    for (const Atom& atom : listing.atoms_of(file))
      here.placements.push_back({.kind = PlacementKind::kSame, .begin = atom.at.old_begin});
    ground.files.push_back(std::move(here));
  }
  return ground;
}

}  // namespace tessera::stack

#include "stack/compose/region.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "stack/plan/plan_file.h"

namespace tessera::stack {

Result<std::vector<EditRegion>> read_regions(const Plan& plan, const Listing& listing,
                                             const Ownership& ownership, const std::string& folder,
                                             const std::string& plan_name) {
  std::vector<EditRegion> regions;
  for (std::size_t i = 0; i < plan.edits.size(); ++i) {
    const Edit& edit = plan.edits[i];
    const std::string where = plan_name + ":" + std::to_string(edit.line);
    EditRegion region{.edit = static_cast<std::int32_t>(i),
                      .bucket = *plan.find_bucket(edit.bucket),
                      .file = -1,
                      .first_atom = -1,
                      .last_atom = -1,
                      .owners = {},
                      .text = {}};
    if (edit.covers.empty())
      return Error{ErrorKind::kInvalidArgument, where,
                   "An edit covers at least one atom; 'covers' is empty."};
    for (const std::string& written : edit.covers) {
      const std::string id = written.starts_with("h:") ? written.substr(2) : written;
      const std::vector<std::int32_t> found = listing.find(id);
      if (id.size() < 4 || found.size() != 1) {
        return Error{ErrorKind::kNotFound, where,
                     "The edit covers '" + written + "', which names " + std::to_string(found.size()) +
                         " atoms instead of one."};
      }
      const Atom& atom = listing.atoms[static_cast<std::size_t>(found[0])];
      if (atom.kind != AtomKind::kText || listing.file_of(atom).path != edit.path) {
        return Error{ErrorKind::kInvalidArgument, where,
                     "The edit covers '" + written + "', which is no text atom of " + edit.path + "."};
      }
      region.file = atom.file;
      region.first_atom = region.first_atom < 0 ? found[0] : std::min(region.first_atom, found[0]);
      region.last_atom = std::max(region.last_atom, found[0]);
    }
    std::set<std::int32_t> owners;
    for (std::int32_t at = region.first_atom; at <= region.last_atom; ++at) {
      for (const std::int32_t owner : ownership.atoms[static_cast<std::size_t>(at)].owners()) {
        if (owner != kUnassigned) owners.insert(owner);
      }
    }
    region.owners.assign(owners.begin(), owners.end());
    TS_TRY(region.text, load_text((std::filesystem::path(folder) / edit.file).string()));
    for (const EditRegion& other : regions) {
      const bool apart = other.file != region.file || other.last_atom < region.first_atom ||
                         region.last_atom < other.first_atom;
      const bool equal = other.first_atom == region.first_atom && other.last_atom == region.last_atom &&
                         other.bucket != region.bucket;
      if (!apart && !equal) {
        return Error{ErrorKind::kConflict, where,
                     "This edit's region overlaps that of the edit on line " +
                         std::to_string(plan.edits[static_cast<std::size_t>(other.edit)].line) +
                         "; let both cover the same atoms."};
      }
    }
    regions.push_back(std::move(region));
  }
  return regions;
}

}  // namespace tessera::stack

#include "stack/suggest/claims_of_atoms.h"

#include <algorithm>
#include <map>

#include "stack/object/printable.h"
#include "stack/plan/claim.h"
#include "stack/plan/plan_editor.h"

namespace tessera::stack {

std::string path_claim(const std::string& path) {
  if (!is_utf8(path)) return "{ path_bytes = " + toml_quoted(percent_encoded(path)) + " }";
  const auto read = parse_claim(path);
  if (read && read->kind == ClaimKind::kPath && read->path == path) return path;
  return "{ path = " + toml_quoted(path) + " }";
}

std::string id_claim(const Listing& listing, std::int32_t atom) {
  const Atom& a = listing.atoms[static_cast<std::size_t>(atom)];
  return "h:" + a.id.substr(0, std::max<std::size_t>(a.short_size, 8));
}

std::vector<std::string> claims_of_atoms(const Listing& listing, const std::vector<std::int32_t>& atoms) {
  std::map<std::int32_t, std::vector<std::int32_t>> by_file;
  for (const std::int32_t at : atoms) by_file[listing.atoms[static_cast<std::size_t>(at)].file].push_back(at);
  std::vector<std::string> claims;
  for (const auto& [file, own] : by_file) {
    const FileChange& change = listing.files[static_cast<std::size_t>(file)];
    if (own.size() == static_cast<std::size_t>(change.atom_count)) {
      claims.push_back(path_claim(change.path));
    } else {
      for (const std::int32_t at : own) claims.push_back(id_claim(listing, at));
    }
  }
  return claims;
}

}  // namespace tessera::stack

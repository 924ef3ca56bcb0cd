// Atoms as the command line shows them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stack/compose/workspace.h"

namespace tessera::stack {

std::string bucket_names(const Plan& plan,
                         const AtomOwner& owner);                // "a", "a+b" when cut, "-" for unassigned
std::string place_of(const Listing& listing, const Atom& atom);  // "path:12", the line in the tree
std::string first_line(const Listing& listing,
                       const Atom& atom);  // what it adds, else removes, or what fact it is
nlohmann::ordered_json atom_json(const Workspace& workspace, std::int32_t atom);
// Which atom is meant by "h:3fa9", "3fa9"; unknown and ambiguous ids are errors with the candidates.
Result<std::int32_t> find_atom(const Listing& listing, std::string_view written);

}  // namespace tessera::stack

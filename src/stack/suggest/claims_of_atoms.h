// The shortest claims that name given atoms: a path when all of a file's atoms are meant, ids otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/atom/atom.h"

namespace tessera::stack {

std::vector<std::string> claims_of_atoms(const Listing& listing, const std::vector<std::int32_t>& atoms);
// A literal path as a claim; the table form when the short one would be read as something else.
std::string path_claim(const std::string& path);
// "h:…" with enough digits to stay unique when a tree grows.
std::string id_claim(const Listing& listing, std::int32_t atom);

}  // namespace tessera::stack

// Git object ids as text, and the id that git would give to bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stack/tree.h"

namespace tessera::stack {

std::string to_hex(const Oid& oid);
std::optional<Oid> parse_oid(std::string_view hex);  // exactly 40 hex digits, either case
Oid blob_id(std::string_view bytes);                 // what `git hash-object` prints
std::string_view octal_of(FileMode mode);            // "100644", as git prints it

}  // namespace tessera::stack

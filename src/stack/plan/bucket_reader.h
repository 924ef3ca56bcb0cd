// Reads one [[bucket]] and its claims. For .cpp files of this folder only (toml++ is heavy).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/plan/plan.h"
#include "stack/plan/toml_table.h"

namespace tessera::stack {

// What becomes part of a ref: letters, digits, '-', '_' and '.', and nothing that git would refuse.
bool is_name(std::string_view text);

// `file` stands in messages.
Result<Bucket> read_bucket(TomlTable table, const std::string& file);

}  // namespace tessera::stack

// Globs over paths, as plans use them: `*` and `?` stay within one folder, `**` crosses folders, `[a-z]` and
// `[!a]` are sets, `\` quotes.
#pragma once

#include <string_view>

#include "base/result.h"

namespace tessera::stack {

// Matches the whole path. `**/` also stands for nothing, so "**/x" matches "x"; "dir/**" matches everything
// below dir.
bool glob_matches(std::string_view glob, std::string_view path);

// Refuses what other tools expand and we take as it is written, so that it would match nothing without a
// word:
// `{a,b}` and `{1..3}`.
Result<void> check_glob(std::string_view glob);

}  // namespace tessera::stack

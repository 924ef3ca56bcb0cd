// Globs over paths, as plans use them: `*` and `?` stay within one folder, `**` crosses folders, `[a-z]` and
// `[!a]` are sets, `\` quotes.
#pragma once

#include <string_view>

namespace tessera::stack {

// Matches the whole path. `**/` also stands for nothing, so "**/x" matches "x"; "dir/**" matches everything
// below dir.
bool glob_matches(std::string_view glob, std::string_view path);

}  // namespace tessera::stack

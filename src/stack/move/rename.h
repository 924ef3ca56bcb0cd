// Where a path went that the target no longer has.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "stack/compose/workspace.h"

namespace tessera::stack {

struct Rename {
  std::string path;
  std::int32_t percent = 0;  // of lines in common
};

// A path of `target` that the base lacks, with the same bytes, or with at least 60 percent of lines in common
// with the base's file; the most similar one, and none when two are equally similar.
Result<std::optional<Rename>> find_rename(const Workspace& workspace, const Tree& target,
                                          const FileChange& file);

}  // namespace tessera::stack

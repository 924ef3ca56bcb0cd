// A folder on disk as a Tree: raw bytes, nothing followed, nothing filtered, nothing written.
#pragma once

#include "base/result.h"
#include "stack/source/read_options.h"

namespace tessera::stack {

// A ".git" at any depth is skipped and noted. A file that changes while it is read is read again, then given
// up as unreadable.
Result<SourceTree> read_folder(const std::string& location, const ReadOptions& options);

}  // namespace tessera::stack

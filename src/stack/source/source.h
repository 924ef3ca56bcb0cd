// Any tree source but git's object database, by its spec. (git: is read by the repository wrapper, which owns
// libgit2.)
#pragma once

#include "base/result.h"
#include "stack/source/read_options.h"
#include "stack/source/source_spec.h"

namespace tessera::stack {

Result<SourceTree> read_source(const SourceSpec& spec, const ReadOptions& options);

}  // namespace tessera::stack

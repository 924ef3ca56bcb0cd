// A commit's change put onto another tree, file by file: what a cherry-pick does, without an index.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"

namespace tessera::stack {

struct Replayed {
  Oid tree;                            // meaningless when there are conflicts
  std::vector<std::string> conflicts;  // paths, sorted
};

// `commit` must have a parent. A path that both sides changed is merged by lines; anything that is no text,
// or that meets, conflicts.
Result<Replayed> replay(Repository& repository, const Commit& commit, const Oid& onto);

}  // namespace tessera::stack

// The frozen tree of a plan as git objects: its files, and where each came from (layers and build steps),
// which a git tree cannot say.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

// Writes the objects; which refs shall point where. No ref changes here.
Result<std::vector<std::pair<std::string, Oid>>> write_frozen(Repository& repository, const Plan& plan,
                                                              const Tree& tree);

// Both together again; kNotFound when the plan has no frozen tree here.
Result<Tree> read_frozen(const Repository& repository, const Plan& plan);

}  // namespace tessera::stack

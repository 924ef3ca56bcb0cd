// Which commit did a tree really diverge from? The number of differing files has a sharp valley there, so
// history is sampled and the valley is descended.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"

namespace tessera::stack {

struct BaseCandidate {
  Oid commit;
  std::int64_t files = 0;  // that differ
  std::int64_t lines = 0;  // added and removed
  std::string found_by;    // "history of refs/heads/main", "tag v1.2"
};

// Best first: fewest files, then fewest lines, then oldest in walking order. `tree` is a tree object of the
// repository.
Result<std::vector<BaseCandidate>> find_bases(const Repository& repository, const Oid& tree,
                                              const std::vector<std::string>& branches, std::size_t most = 5);

}  // namespace tessera::stack

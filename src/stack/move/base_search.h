// Which commit did a tree really diverge from? The number of differing files has a sharp valley there, so
// history is sampled and the valley is descended.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"
#include "stack/progress.h"

namespace tessera::stack {

struct BaseCandidate {
  Oid commit;
  std::int64_t files = 0;  // that differ
  std::int64_t lines = 0;  // added and removed
  std::string found_by;    // "history of refs/heads/main", "tag v1.2"
};

struct BaseSearch {
  std::vector<std::string> branches{};  // whose history is searched; empty: all, and every tag
  std::vector<std::string> hints{};     // names or shortened ids that the tree itself gives (version_hint.h)
  std::string own_branches{};           // "refs/heads/tessera/x/": made from the tree, so never its base
  std::optional<Oid> own_commit{};  // the tree as a commit, if it is one: branches that hold it are its own
  bool every_commit = false;  // of each history: finds a valley that is narrower than the samples' distance
  std::size_t most = 5;       // candidates to give back
  StageProgress progress{};
};

// Best first: fewest files, then fewest lines, then oldest in walking order. `tree` is a tree object of the
// repository; its own history is not needed.
Result<std::vector<BaseCandidate>> find_bases(const Repository& repository, const Oid& tree,
                                              const BaseSearch& search = {});

}  // namespace tessera::stack

// Pairs of commits of which the later takes back what the earlier did. The flat difference shows nothing of
// it, so nobody would miss it, and nobody knows that it was tried.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"
#include "stack/progress.h"

namespace tessera::stack {

struct CancelledPair {
  std::size_t first = 0;  // indices of the commits
  std::size_t second = 0;
  std::int64_t removed = 0;  // lines that the first added and the second removed without putting others there
  std::int64_t restored = 0;  // lines of the base that the first removed and the second put back
};

// Along `commits`, oldest first, each the first parent of the next, the first one's parent being `base`. By
// most lines first. Merges bring in other people's work and make no pair.
Result<std::vector<CancelledPair>> find_cancelled(const Repository& repository, const Oid& base,
                                                  const std::vector<Commit>& commits,
                                                  const StageProgress& progress = {});

// "Commit 12ab… restores 53 lines that 98cd… removed: <subject>"
std::string sentence_of(const CancelledPair& pair, const std::vector<Commit>& commits);

}  // namespace tessera::stack

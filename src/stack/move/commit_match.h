// Which of a fork's changes another history has already, by what they do and by what their messages say: ids
// survive neither a rebase nor a squash.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"
#include "stack/progress.h"

namespace tessera::stack {

// Strongest first. All but the first say only that it is meant to be the same change.
enum class CommitEvidence {
  kPatchId,     // the same change, apart from line numbers and white space
  kCherryPick,  // "(cherry picked from commit …)" in either names the other
  kChangeId,    // the same Change-Id
  kNumber,      // the same pull request: "(#123)" in both subjects, or the bucket's link
  kSubject,     // the same subject, of at least three words
};
std::string_view name_of(CommitEvidence evidence);

// A commit of the fork, or several of them as one.
struct ForkChange {
  std::string name;     // for people: "commit 12ab…", "bucket x"
  std::string message;  // whose first line is the subject; trailers count
  Oid before;           // trees
  Oid after;
  Oid commit{};  // zero when it is no commit
};

struct CommitMatch {
  std::size_t change = 0;  // index of the ForkChange
  CommitEvidence evidence = CommitEvidence::kPatchId;
  Oid upstream;
};

// Compares with the commits that `at` has and `base` lacks, merges left out. At most one match for a change
// and a kind of evidence, the newest; by change, then by evidence.
Result<std::vector<CommitMatch>> match_commits(const Repository& repository,
                                               const std::vector<ForkChange>& changes, const Oid& base,
                                               const Oid& at, const StageProgress& progress = {});

// The commits from..to that are no merges, oldest first, each as a change; then, when there are several, all
// of them as one.
Result<std::vector<ForkChange>> changes_of_commits(const Repository& repository, const Oid& from,
                                                   const Oid& to);

}  // namespace tessera::stack

// Buckets that the tool proposes for atoms that nobody claims. Each guess says by which rule; none claims to
// be right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/compose/workspace.h"

namespace tessera::stack {

struct ProposedClaim {
  std::string claim;    // as in a plan
  std::string comment;  // the rule, when it is not the bucket's
};

struct ProposedBucket {
  std::string name;
  BucketKind kind = BucketKind::kUpstream;
  std::string title;
  std::string why;
  std::string author;
  std::string comment;  // the rule that made it
  std::vector<ProposedClaim> take;
};

struct Suggestion {
  std::vector<ProposedBucket> buckets;
  std::vector<std::string> notes;  // full sentences: commits that own nothing, mixed atoms, …
  std::int64_t mixed_atoms = 0;    // cut into pieces because several commits wrote them
};

// By files; then tests go to what they test, small files to the one file whose new names they use, and
// probable locals are marked.
Suggestion suggest_by_files(const Workspace& workspace);

// By the commits from..to (first parents), by who last wrote or removed each line. Fixups are folded into
// what they fix.
Result<Suggestion> suggest_from_commits(const Workspace& workspace, const Oid& from, const Oid& to);

// "A..B", as typed.
struct CommitRange {
  Oid from;
  Oid to;
};
Result<CommitRange> parse_range(const Repository& repository, const std::string& text);
// The commits of a range along first parents, oldest first.
Result<std::vector<Commit>> first_parents(const Repository& repository, const Oid& from, const Oid& to);

// [[bucket]] tables to append to the plan.
std::string to_toml(const Suggestion& suggestion);

// A word for a branch from a sentence: "[Kernel] Fix the FP8 path (#12)" becomes "fix-the-fp8-path".
std::string slug_of(std::string_view sentence);
// Why a path is probably of local use only; empty when nothing says so.
std::string local_reason(std::string_view path);

}  // namespace tessera::stack

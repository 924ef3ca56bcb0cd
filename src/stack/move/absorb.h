// Drift: the tree moved on after the plan was made. Every new or changed atom gets the owner of the lines
// that it touches, where there is exactly one; the rest is listed. The result is a change of the plan to
// read, never a commit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/compose/workspace.h"

namespace tessera::stack {

enum class Confidence {
  kOwner,      // one topic owns the lines around or removed
  kPieces,     // several own parts of it, line by line
  kWeak,       // by file or folder only
  kAmbiguous,  // between lines of two topics: left unassigned
  kNone,       // nobody near: left unassigned
};
std::string_view name_of(Confidence confidence);

struct AbsorbProposal {
  std::int32_t atom = 0;  // of the new listing
  Confidence confidence = Confidence::kNone;
  std::vector<std::pair<std::int32_t, std::string>> claims{};  // bucket, claim to add
  std::vector<std::int32_t> candidates{};                      // buckets that could own it
};

// Somebody committed on a topic branch after our last run.
struct AheadOfTree {
  std::string ref;
  Oid ours;
  Oid now;
};

struct Absorption {
  std::vector<AbsorbProposal> proposals;  // atoms whose owner the plan, as it is, gets wrong or not at all
  std::vector<std::pair<std::int32_t, std::string>>
      stale;  // bucket and claim that match nothing in the new listing
  std::vector<AheadOfTree> ahead;
  std::int64_t unchanged = 0;  // atoms of the new listing that the plan owns rightly already
};

// `fresh` is the same plan opened with the new tree.
Result<Absorption> absorb(const Workspace& old, const Workspace& fresh);

}  // namespace tessera::stack

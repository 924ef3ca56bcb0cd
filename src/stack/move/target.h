// Places every atom at another commit: by the line map where its lines stand unchanged, by a three-way merge
// where the neighbourhood changed, by a stored resolution where the user gave one; else a conflict, as a
// value.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/compose/ground.h"
#include "stack/compose/workspace.h"

namespace tessera::stack {

// Several atoms that one upstream change touches have one conflict together.
struct Conflict {
  std::string id;                   // "c:" and 16 hex digits of the three texts, wherever they stand
  std::string path;                 // at the base
  std::vector<std::int32_t> atoms;  // of the listing
  std::string why;                  // one sentence
  bool has_texts = false;           // else a whole path clashes: deleted there, changed here, and the like
  std::string base;                 // the region's lines
  std::string ours;                 // at the target
  std::string theirs;               // with our atoms
  std::int32_t target_begin = 0;    // the region at the target: first line from 0, lines
  std::int32_t target_count = 0;
  bool is_resolved = false;     // by a stored resolution
  std::vector<Oid> upstream{};  // commits between base and target that touched the region, newest first
};

struct TargetGround {
  Ground ground;
  std::vector<Conflict> conflicts;   // resolved ones too; by path and place
  std::vector<std::string> renamed;  // "old -> new, 83 percent", for review
};

// Stands the workspace's atoms on `target`. With the base itself nothing is compared.
Result<TargetGround> ground_on(const Workspace& workspace, const Commit& target);

// Fills Conflict::upstream; walks the history between base and target.
Result<void> find_upstream_commits(const Workspace& workspace, const Commit& target,
                                   std::vector<Conflict>& conflicts);

}  // namespace tessera::stack

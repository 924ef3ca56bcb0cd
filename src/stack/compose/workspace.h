// Everything that a plan speaks of, opened: repository, base, target, frozen tree, all atoms and who owns
// them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/atom/atom.h"
#include "stack/compose/dependencies.h"
#include "stack/compose/region.h"
#include "stack/git/repository.h"
#include "stack/plan/ownership.h"
#include "stack/plan/path_rules.h"
#include "stack/plan/plan_file.h"
#include "stack/progress.h"

namespace tessera::stack {

struct Workspace {
  PlanFile file;
  Repository repository;
  Commit base;
  Commit target;
  Tree base_tree;
  Tree raw_tree;    // the frozen tree, before the rules
  RuledTree ruled;  // and after
  Listing listing;
  ClaimResolution claims;
  std::vector<EditRegion> regions;
  bool listing_is_stale =
      false;                 // the plan's fingerprint is of another listing (rules or options were edited)
  StageProgress progress{};  // told by whatever works on it and may take over a second

  const Plan& plan() const { return file.plan; }
  // Every path of the tree has been compared and is as in the base: nothing to split or integrate.
  bool has_no_difference() const { return listing.atoms.empty() && listing.unreadable.empty(); }
  std::string plan_name() const;  // the file's name, for messages
  std::string where(std::int32_t line) const { return plan_name() + ":" + std::to_string(line); }
};

// Refs that hold what a plan needs to stay: "refs/tessera-stack/<plan>/<what>".
std::string state_ref(const Plan& plan, std::string_view what);

// Reads the frozen tree by its ref; a tree whose digest is not the plan's is refused.
Result<Workspace> open_workspace(const std::string& plan_path, StageProgress progress = {});
// The same from a plan that is not on disk yet, with a given tree.
Result<Workspace> make_workspace(PlanFile file, Repository repository, Tree raw_tree,
                                 StageProgress progress = {});

// Writes the tree as git objects under its ref, so that no source has to be read again and no clean-up
// removes it.
Result<Oid> freeze_tree(Repository& repository, const Plan& plan, const Tree& tree);

// `workspace` is borrowed by what comes back.
Graph graph_of(const Workspace& workspace);

// Every atom together must give the tree, path by path. Anything else is a bug of ours.
Result<void> check_identity(const Workspace& workspace, const Graph& graph);

}  // namespace tessera::stack

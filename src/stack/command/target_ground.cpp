#include "stack/command/target_ground.h"

#include "stack/compose/composer.h"
#include "stack/move/target.h"
#include "stack/object/next_command.h"

namespace tessera::stack {

Result<Ground> target_ground(const Workspace& workspace) {
  TS_TRY(TargetGround target, ground_on(workspace, workspace.target));
  return std::move(target.ground);
}

Result<Tree> expected_tree(Workspace& workspace, const Graph& graph, const Ground& ground) {
  if (workspace.target.id == workspace.base.id) return workspace.ruled.tree;
  const Composer composer(workspace.listing, workspace.claims.ownership, workspace.regions, graph.rank,
                          ground);
  TreeComposer trees(composer, ground, workspace.repository);
  const BucketSet all{std::vector<bool>(workspace.plan().buckets.size(), true), true};
  TS_TRY(const TreeComposer::Composed composed, trees.compose(workspace.target.tree, all));
  if (!composed.conflicts.empty()) {
    return Error{ErrorKind::kConflict, workspace.plan_name(),
                 with_next("Some atoms have conflicts at the target, so nobody knows what the tree would be "
                           "there",
                           "tessera-stack rebase --onto " + workspace.plan().target.substr(0, 12))};
  }
  return workspace.repository.read_tree(composed.tree);
}

}  // namespace tessera::stack

// Where a workspace's topics stand now: the ground on its target, with the plan's stored resolutions.
#pragma once

#include "base/result.h"
#include "stack/compose/ground.h"
#include "stack/compose/workspace.h"

namespace tessera::stack {

Result<Ground> target_ground(const Workspace& workspace);

// What the target would be with every atom: the tree, when target and base are one.
Result<Tree> expected_tree(Workspace& workspace, const Graph& graph, const Ground& ground);

}  // namespace tessera::stack

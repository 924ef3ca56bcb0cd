// Everything that the report and the pull request texts say, gathered from a workspace.
#pragma once

#include "base/result.h"
#include "stack/command/verification.h"
#include "stack/compose/topics.h"
#include "stack/publish/report.h"

namespace tessera::stack {

// A plan opened, composed (without moving a branch) and verified.
struct StackState {
  Workspace workspace;
  Graph graph;
  Ground ground;
  Composition composition;
  Verification verification;
};
Result<StackState> open_state(const Session& session);

// `with_checks`: the buckets' commands run, each in a temporary checkout of its topic.
Result<Report> collect_report(const StackState& state, bool with_checks);

}  // namespace tessera::stack

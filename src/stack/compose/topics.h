// From a plan to commits: one topic for each bucket, standing on the target and what it needs; and the
// integration of all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/compose/ground.h"
#include "stack/compose/workspace.h"

namespace tessera::stack {

struct Topic {
  std::int32_t bucket = 0;
  std::string ref;                      // "refs/heads/<prefix>/<name>"
  std::vector<std::int32_t> stands_on;  // every topic below, in line order
  std::vector<std::int32_t>
      conflicts;  // atoms, its own or of those below, that cannot be placed on the target; then no commit
  bool is_empty =
      false;  // adds nothing to what is below (all of it is upstream, or it owns no atom); then no commit
  Oid commit;
  Oid tree;
  Oid parent;  // target, a topic's tip, or a merge of several
};

struct Composition {
  std::vector<Topic> topics;       // in line order
  std::optional<Oid> integration;  // commit; absent when a topic conflicts
  std::optional<Oid> integration_tree;
  std::string integration_ref;
};

// The commits of several topics in a line, and what is at its end.
struct TopicLine {
  std::string ref;
  Oid commit;
  Oid tree;
  std::vector<std::int32_t> buckets{};  // in the order of their commits; empty ones are left out
};

// Commits are written to the object database; no ref changes. Same inputs, same ids.
Result<Composition> compose_topics(Workspace& workspace, const Graph& graph, const Ground& ground);

// Every upstream topic as one commit, in line order on the target: the branch of a consolidated pull request.
// Refused when one of them conflicts there.
Result<TopicLine> consolidate_topics(Workspace& workspace, const Graph& graph, const Ground& ground,
                                     const Composition& composition);

// `tree` with a recorded reviewer's commit on it; a conflict is an error that names the plan's line.
Result<Oid> replay_ahead(Workspace& workspace, const Ahead& ahead, const Oid& tree);

// What it touches, sorted.
Result<std::vector<std::string>> paths_of_ahead(const Workspace& workspace, const Ahead& ahead);

// "Name <mail>" as a signature at the plan's date.
Result<Signature> plan_signature(const Plan& plan, const std::string& person);

}  // namespace tessera::stack

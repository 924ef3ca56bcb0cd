// What `verify` finds out, for its own output and for the report.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/command/session.h"
#include "stack/compose/ground.h"
#include "stack/compose/workspace.h"
#include "stack/parity/expectation.h"
#include "stack/parity/parity.h"

namespace tessera::stack {

struct Verification {
  Tree tree;  // that was compared: what runs
  Tree integration;
  Oid integration_commit;
  Parity parity;
  std::vector<ExpectationResult> on_tree;
  std::vector<ExpectationResult> on_integration;
  std::int64_t unassigned = 0;  // atoms
  std::int64_t atoms = 0;

  // Nothing unassigned, every expectation holds, every path in an accepted class.
  bool is_true(const std::vector<ParityClass>& allowed) const;
};

// `source`: a spec to read instead of the frozen tree; empty: the frozen one (moved to the target, when that
// is another commit).
Result<Verification> verify_workspace(Workspace& workspace, const Graph& graph, const Ground& ground,
                                      const std::string& source, const Session& session);

}  // namespace tessera::stack

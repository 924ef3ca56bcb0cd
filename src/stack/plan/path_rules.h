// The plan's ignore and subset rules: what of the tree does not count, said path by path, so that nothing
// hides.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/plan/plan.h"
#include "stack/tree.h"

namespace tessera::stack {

struct RuleUse {
  std::string rule;  // "ignore **/__pycache__/**"
  std::string reason;
  std::int32_t line = 0;
  std::int64_t paths = 0;  // that it swallowed; 0 is worth a warning
};

struct RuledTree {
  Tree tree;  // as it counts: ignored paths are as in the base, paths outside the subset too
  std::vector<std::string> ignored;  // paths of the tree, and of the base, that do not count
  std::vector<RuleUse> uses;         // one a rule, in the plan's order
};

// Refused: a rule that hides a path which the base has and the tree changed, unless the rule says
// even_if_changed.
Result<RuledTree> apply_rules(const Plan& plan, const Tree& base, const Tree& tree);

}  // namespace tessera::stack

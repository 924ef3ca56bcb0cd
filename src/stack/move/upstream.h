// Which atoms another commit has already, how certain that is, and which commit brought them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/compose/workspace.h"

namespace tessera::stack {

enum class UpstreamLevel {
  kFile,     // the whole file is equal there
  kAtom,     // the same atom is part of the difference from the base to there
  kReverse,  // its added lines stand there exactly once and its removed ones do not: probably upstream, moved
};
std::string_view name_of(UpstreamLevel level);

struct UpstreamFinding {
  std::int32_t atom = 0;
  UpstreamLevel level = UpstreamLevel::kFile;
  std::optional<Oid> commit;  // between base and target, that brought it; nothing when history does not tell
};

// In the listing's order.
Result<std::vector<UpstreamFinding>> find_upstream(const Workspace& workspace, const Commit& target);

}  // namespace tessera::stack

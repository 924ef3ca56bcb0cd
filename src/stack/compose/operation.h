// Operations: what a run changed, recorded in the repository itself, so that it can be shown and taken back.
// One operation changes all its refs or none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"
#include "stack/plan/plan_file.h"

namespace tessera::stack {

struct Operation {
  std::int32_t number = 0;  // from 1
  std::string verb;
  std::string when;  // ISO 8601, UTC
  std::vector<RefChange> refs;
  std::optional<Oid> plan_before;  // blobs of the plan's text, when the run changed it
  std::optional<Oid> plan_after;
};

// What one ref of a run becomes.
enum class Outcome { kNew, kModified, kUnmodified, kDeleted, kEmpty, kConflict };
std::string_view name_of(Outcome outcome);

struct RefUpdate {
  std::string ref;
  std::optional<Oid> before;
  std::optional<Oid> after;
  Outcome outcome = Outcome::kUnmodified;
};

struct RunOptions {
  std::string verb;
  std::string when;    // given in, so that tests need no clock
  bool force = false;  // overwrite branches that somebody else moved
  bool dry_run = false;
  std::optional<std::string> plan_text;  // the plan's new text
  std::vector<std::pair<std::string, Oid>>
      state{};  // our own refs that change along, such as the frozen tree
};

// Moves branches to `wanted` (nothing: deleted) and records the operation. A branch that is not where our
// last run left it is refused with its name, unless forced; so is the branch that is checked out. Unchanged
// refs and an unchanged plan make no operation.
Result<std::vector<RefUpdate>> run_operation(
    Repository& repository, const PlanFile& file,
    const std::vector<std::pair<std::string, std::optional<Oid>>>& wanted, const RunOptions& options);

Result<std::vector<Operation>> read_operations(const Repository& repository,
                                               const Plan& plan);  // oldest first

// Takes the newest operation back: refs and plan. Refused when a ref or the plan was changed since, unless
// forced.
Result<Operation> undo_operation(Repository& repository, const PlanFile& file, bool force, bool dry_run);

}  // namespace tessera::stack

// A topic's files in a temporary folder, for the commands that a plan gives as checks. The user's own
// commands, run on purpose.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"

namespace tessera::stack {

struct CheckResult {
  std::string command;
  int status = 0;
  std::string last_line{};  // of what it printed
};

// Writes the tree once, runs each command in it with `sh -c`, removes it.
Result<std::vector<CheckResult>> run_checks(const Repository& repository, const Oid& tree,
                                            const std::vector<std::string>& commands);

}  // namespace tessera::stack

// What a branch said before and after a run, as `git range-diff` would show it.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "stack/git/repository.h"

namespace tessera::stack {

struct TopicDifference {
  std::string mark = "=";  // "=": says the same, "!": changed, ">": new, "<": gone
  std::string text{};      // with "!" only
};

// The tips of one topic, each one commit on what it stands on.
Result<TopicDifference> compare_versions(const Repository& repository, const std::optional<Oid>& before,
                                         const std::optional<Oid>& after);

}  // namespace tessera::stack

// A plan on disk: its path, its text, and what was read from it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

// A plan and the text that it was read from.
struct PlanFile {
  std::string path;
  std::string text;
  Plan plan;

  std::string folder() const;                           // where relative paths of the plan begin
  std::string beside(std::string_view relative) const;  // a path of the plan as a path of this process
};
Result<PlanFile> load_plan(const std::string& path);
// Replaces the file in one step (write beside, rename).
Result<void> save_text(const std::string& path, std::string_view text);
// The same, making the folders above it.
Result<void> save_below(const std::filesystem::path& path, std::string_view text);
Result<std::string> load_text(const std::string& path);

}  // namespace tessera::stack

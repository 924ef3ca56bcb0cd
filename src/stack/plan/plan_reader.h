// Reads a plan from TOML. Every refusal names the line of the plan.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

// `name` stands in messages, e.g. "stack.toml".
Result<Plan> read_plan(std::string_view text, const std::string& name);

}  // namespace tessera::stack

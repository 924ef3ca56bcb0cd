// The short form of claims in a plan: "path", "glob:…", "path#fn:name", "path#L10-L20", "text:glob:/…/",
// "h:3fa9", "h:3fa9[+2]".
#pragma once

#include <string_view>

#include "base/result.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

Result<Claim> parse_claim(std::string_view text);

}  // namespace tessera::stack

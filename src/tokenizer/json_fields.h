// Reading JSON that others wrote: parse errors and wrong types become Results. Include from .cpp files only:
// heavy.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

// The outermost value must be an object. Nesting above 200 levels is refused (the parser's values are freed
// recursively).
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where);
// {"content": "<|x|>", "special": true, "lstrip": false, ...}, with "id" where there is one.
Result<ControlToken> read_added_token(const nlohmann::json& value, const std::string& where);

}  // namespace tessera

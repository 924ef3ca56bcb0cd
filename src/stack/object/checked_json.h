// JSON from outside: parsed with a limit on nesting, and read field by field without exceptions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::stack {

// kCorrupt, with the byte where it stops making sense, or kTooLarge when nested deeper than `max_depth`.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& where, int max_depth = 64);

// The field as a string, "" when absent or of another type.
std::string json_string(const nlohmann::json& object, const char* key);
// The field as a number of bytes or items, nothing when absent, negative or of another type.
std::optional<std::uint64_t> json_count(const nlohmann::json& object, const char* key);
// The field as a list of strings; elements of another type are left out.
std::vector<std::string> json_strings(const nlohmann::json& object, const char* key);
// The field itself, or null.
const nlohmann::json& json_field(const nlohmann::json& object, const char* key);

}  // namespace tessera::stack

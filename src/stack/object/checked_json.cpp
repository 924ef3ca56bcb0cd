#include "stack/object/checked_json.h"

#include <nlohmann/json.hpp>

namespace tessera::stack {
namespace {

const nlohmann::json kNull;

// Before the parser sees it: a document of nothing but brackets costs memory a hundred times its size.
bool is_deeper_than(std::string_view text, int max_depth) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > max_depth) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, const std::string& where, int max_depth) {
  if (is_deeper_than(text, max_depth)) {
    return Error{ErrorKind::kTooLarge, where,
                 "Its JSON is nested deeper than " + std::to_string(max_depth) + " levels."};
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    return Error{ErrorKind::kCorrupt, where,
                 "It is not valid JSON; it breaks at byte " + std::to_string(error.byte) + "."};
  } catch (const nlohmann::json::out_of_range&) {  // 1e999
    return Error{ErrorKind::kCorrupt, where, "It holds a number that is too large to be read."};
  }
}

const nlohmann::json& json_field(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string json_string(const nlohmann::json& object, const char* key) {
  const nlohmann::json& field = json_field(object, key);
  return field.is_string() ? field.get<std::string>() : std::string();
}

std::optional<std::uint64_t> json_count(const nlohmann::json& object, const char* key) {
  const nlohmann::json& field = json_field(object, key);
  if (field.is_number_unsigned()) return field.get<std::uint64_t>();
  return std::nullopt;
}

std::vector<std::string> json_strings(const nlohmann::json& object, const char* key) {
  std::vector<std::string> out;
  const nlohmann::json& field = json_field(object, key);
  if (!field.is_array()) return out;
  for (const nlohmann::json& item : field) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

}  // namespace tessera::stack

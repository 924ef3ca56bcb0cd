#include "tokenizer/json_fields.h"

#include <limits>

namespace tessera {

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where) {
  bool too_deep = false;
  const auto watch_depth = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > 200) too_deep = true;
    return depth <= 200;
  };
  try {
    nlohmann::json value = nlohmann::json::parse(text, watch_depth);
    if (too_deep) return Error{ErrorKind::kTooLarge, where, "The JSON is nested more than 200 levels deep."};
    if (!value.is_object()) return Error{ErrorKind::kCorrupt, where, "Expected a JSON object."};
    return value;
  } catch (const nlohmann::json::exception& failure) {
    return Error{ErrorKind::kCorrupt, where, std::string("This is not JSON: ") + failure.what() + "."};
  }
}

Result<ControlToken> read_added_token(const nlohmann::json& value, const std::string& where) {
  if (!value.is_object()) return Error{ErrorKind::kCorrupt, where, "Expected an object."};
  const auto content = value.find("content");
  if (content == value.end() || !content->is_string()) {
    return Error{ErrorKind::kCorrupt, where, "Expected a string under \"content\"."};
  }
  const auto flag = [&](const char* name) {
    const auto found = value.find(name);
    return found != value.end() && found->is_boolean() && found->get<bool>();
  };
  ControlToken token{.id = -1,
                     .text = content->get<std::string>(),
                     .special = flag("special"),
                     .eats_left = flag("lstrip"),
                     .eats_right = flag("rstrip"),
                     .single_word = flag("single_word")};
  if (const auto id = value.find("id"); id != value.end()) {
    if (!id->is_number_integer() || *id < 0 || *id > std::numeric_limits<std::int32_t>::max()) {
      return Error{ErrorKind::kCorrupt, where, "Expected a token id under \"id\"."};
    }
    token.id = id->get<std::int32_t>();
  }
  return token;
}

}  // namespace tessera

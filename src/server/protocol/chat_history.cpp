#include "server/protocol/chat_history.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "server/protocol/json_body.h"

namespace tessera {
namespace {

// Parts become one string with nothing between: what Kimi's templates make of them, and what templates that
// know only strings can take.
std::string flatten(const Json& parts) {
  std::string out;
  for (const Json& part : parts) {
    if (part.is_string()) out += part.get_ref<const std::string&>();
    if (!part.is_object()) continue;
    for (const char* key : {"text", "refusal"}) {
      if (part.contains(key) && part[key].is_string()) out += part[key].get_ref<const std::string&>();
    }
  }
  return out;
}

std::string string_in(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return {};
  return object[key].get<std::string>();
}

class Normaliser {
 public:
  explicit Normaliser(const HistoryOptions& options) : options_(options) {}

  Json message(Json in) {
    Json out = Json::object();
    for (auto& [key, value] : in.get_ref<Json::object_t&>()) {
      // Templates read `reasoning_content: null` as the text "None".
      if (value.is_null() && key != "content") continue;
      out.get_ref<Json::object_t&>().push_back(Json::object_t::value_type(key, std::move(value)));
    }
    const std::string role = out["role"].get<std::string>();
    if (role == "developer") out["role"] = "system";  // the newer name of the same thing
    if (!out.contains("content")) out["content"] = nullptr;
    if (out["content"].is_array()) out["content"] = flatten(out["content"]);
    if (role == "assistant") {
      if (!out.contains("reasoning_content") && out.contains("reasoning") && out["reasoning"].is_string()) {
        out["reasoning_content"] = out["reasoning"];
      }
      if (out.contains("tool_calls")) {
        if (out["tool_calls"].empty()) {
          out.erase("tool_calls");
        } else {
          for (Json& call : out["tool_calls"]) normalise_call(call);
        }
      }
    } else if (role == "tool") {
      const auto renamed = renamed_.find(string_in(out, "tool_call_id"));
      if (renamed != renamed_.end()) out["tool_call_id"] = renamed->second;
    }
    return out;
  }

  std::int32_t next() const { return next_; }

 private:
  void normalise_call(Json& call) {
    std::string name = call.contains("function") ? string_in(call["function"], "name") : "";
    Json arguments = "";
    if (call.contains("function") && call["function"].is_object() && call["function"].contains("arguments")) {
      arguments = std::move(call["function"]["arguments"]);
    }
    if (arguments.is_null()) arguments = "";
    if (options_.arguments_as_objects && arguments.is_string()) {
      auto parsed = parse_json_body(arguments.get_ref<const std::string&>());
      if (parsed && parsed->is_object()) arguments = *std::move(parsed);
    }
    const std::string id = string_in(call, "id");
    call = Json{{"id", canonical(id, name)}, {"type", "function"}};
    call["function"] = Json{{"name", std::move(name)}};
    call["function"]["arguments"] = std::move(arguments);
  }

  std::string canonical(const std::string& id, const std::string& name) {
    const auto index = canonical_tool_index(id);
    if (index) {
      next_ = std::max(next_, *index + 1);
      renamed_.erase(id);
      return id;
    }
    if (!options_.canonical_tool_ids) {
      ++next_;
      return id;
    }
    std::string fresh = "functions." + name + ":" + std::to_string(next_++);
    renamed_[id] = fresh;  // clients that reuse ids mean the latest call
    return fresh;
  }

  const HistoryOptions& options_;
  std::int32_t next_ = 0;
  std::map<std::string, std::string> renamed_;  // the client's id -> ours
};

}  // namespace

std::optional<std::int32_t> canonical_tool_index(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  const std::size_t colon = id.rfind(':');
  if (!id.starts_with(kPrefix) || colon == std::string_view::npos || colon <= kPrefix.size())
    return std::nullopt;
  const std::string_view digits = id.substr(colon + 1);
  std::int32_t index = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size() || index < 0 ||
      index > 1'000'000'000) {
    return std::nullopt;
  }
  return index;
}

ChatHistory prepare_history(Json messages, const HistoryOptions& options) {
  Normaliser normaliser(options);
  ChatHistory out{.messages = Json::array()};
  for (Json& message : messages) out.messages.push_back(normaliser.message(std::move(message)));
  out.next_tool = normaliser.next();
  return out;
}

}  // namespace tessera

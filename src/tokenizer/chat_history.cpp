#include "tokenizer/chat_history.h"

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

std::string text_at(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json* calls_of(Json& message) {
  if (!message.is_object()) return nullptr;
  const auto found = message.find("tool_calls");
  return found != message.end() && found->is_array() ? &*found : nullptr;
}

// Builds the object anew: erasing or assigning key by key would be quadratic in their number.
void drop_nulls(Json& message) {
  Json::object_t kept;
  for (auto& [key, value] : message.get_ref<Json::object_t&>()) {
    if (!value.is_null() || key == "content") kept.emplace_back(key, std::move(value));
  }
  message = std::move(kept);
}

void give_both_reasoning_names(Json& message) {
  const bool has_short = message.contains("reasoning"), has_long = message.contains("reasoning_content");
  if (has_short && !has_long) message["reasoning_content"] = Json(message["reasoning"]);
  if (has_long && !has_short) message["reasoning"] = Json(message["reasoning_content"]);
}

void parse_arguments(Json& call) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) return;
  Json& function = call["function"];
  if (!function.contains("arguments") || !function["arguments"].is_string()) return;
  const auto text = function["arguments"].get<std::string>();
  // Deep nesting would be parsed and freed recursively.
  bool too_deep = false;
  Json parsed = Json::parse(
      text, [&](int depth, Json::parse_event_t, Json&) { return !(too_deep = too_deep || depth > 200); },
      false);
  if (!too_deep && parsed.is_object()) function["arguments"] = std::move(parsed);
}

// Gives ids in order, and results the id of the call that they answer: the latest one of the id they name,
// else the oldest that has no answer yet.
class ToolIds {
 public:
  void rename_call(Json& call) {
    if (!call.is_object()) return;
    std::string name = text_at(call.value("function", Json::object()), "name");
    const std::string id = "functions." + name + ":" + std::to_string(next_++);
    renamed_[text_at(call, "id")] = id;
    unanswered_.push_back(id);
    call["id"] = id;
  }
  void rename_result(Json& message) {
    const std::string named = text_at(message, "tool_call_id");
    const auto known = renamed_.find(named);
    if (known != renamed_.end()) {
      message["tool_call_id"] = known->second;
      std::erase(unanswered_, known->second);
    } else if (!unanswered_.empty()) {
      message["tool_call_id"] = unanswered_.front();
      unanswered_.pop_front();
    }
  }

 private:
  int next_ = 0;
  std::map<std::string, std::string> renamed_;
  std::deque<std::string> unanswered_;
};

}  // namespace

nlohmann::ordered_json normalised_history(const nlohmann::ordered_json& messages, const HistoryRules& rules) {
  Json history = messages;
  if (!history.is_array()) return history;
  ToolIds ids;
  for (Json& message : history) {
    if (!message.is_object()) continue;
    drop_nulls(message);
    if (rules.both_reasoning_names) give_both_reasoning_names(message);
    if (Json* calls = calls_of(message)) {
      for (Json& call : *calls) {
        if (rules.canonical_tool_ids) ids.rename_call(call);
        if (rules.arguments_as_objects) parse_arguments(call);
      }
    }
    if (rules.canonical_tool_ids && text_at(message, "role") == "tool") ids.rename_result(message);
  }
  return history;
}

int count_tool_calls(const nlohmann::ordered_json& messages) {
  int count = 0;
  if (!messages.is_array()) return count;
  for (const Json& message : messages) {
    const auto found = message.is_object() ? message.find("tool_calls") : message.end();
    if (found != message.end() && found->is_array()) count += static_cast<int>(found->size());
  }
  return count;
}

}  // namespace tessera

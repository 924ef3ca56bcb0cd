#include "server/record/answer_text.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using Json = nlohmann::json;

struct Choice {
  std::string thought, content, calls;

  std::string text() const {
    return (thought.empty() ? "" : "<thought>" + thought + "</thought>") + content + calls;
  }
};

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

void append(std::string& to, const Json& object, const char* name, std::string_view before = {}) {
  const Json* value = member(object, name);
  if (value == nullptr || !value->is_string()) return;
  to += before;
  to += value->get_ref<const std::string&>();
}

// `said` is a message, a delta, or the choice of a text completion.
void take_said(Choice& choice, const Json& said) {
  append(choice.thought, said, "reasoning_content");
  append(choice.content, said, "content");
  append(choice.content, said, "text");
  const Json* calls = member(said, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return;
  for (const Json& call : *calls) {
    const Json* function = member(call, "function");
    if (function == nullptr) continue;
    append(choice.calls, *function, "name", "\ncall of ");
    append(choice.calls, *function, "arguments", member(*function, "name") ? ": " : "");
  }
}

void take_event(std::map<std::int64_t, Choice>& choices, const Json& event) {
  const Json* list = member(event, "choices");
  if (list == nullptr || !list->is_array()) return;
  for (const Json& item : *list) {
    const Json* index = member(item, "index");
    Choice& choice = choices[index != nullptr && index->is_number_integer() ? index->get<std::int64_t>() : 0];
    for (const char* part : {"message", "delta"}) {
      if (const Json* said = member(item, part)) take_said(choice, *said);
    }
    take_said(choice, item);
  }
}

}  // namespace

std::vector<std::string> texts_of_answer(std::string_view body) {
  std::map<std::int64_t, Choice> choices;
  std::vector<std::string> out;
  const auto take = [&](std::string_view text) {
    const Json event = Json::parse(text, nullptr, false);
    take_event(choices, event);
    if (const Json* error = member(event, "error")) append(out.emplace_back(), *error, "message");
  };
  constexpr std::string_view kEvent = "data: ";
  if (body.starts_with(kEvent) || body.starts_with(':')) {
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t end = std::min(body.find('\n', at), body.size());
      const std::string_view line = body.substr(at, end - at);
      if (line.starts_with(kEvent)) take(line.substr(kEvent.size()));
      at = end + 1;
    }
  } else {
    take(body);
    if (choices.empty() && out.empty()) return {std::string(body)};
  }
  for (const auto& [index, choice] : choices) out.push_back(choice.text());
  return out;
}

bool is_repeatable(std::string_view request_body) {
  const Json body = Json::parse(request_body, nullptr, false);
  const Json* seed = member(body, "seed");
  const Json* temperature = member(body, "temperature");
  return (seed != nullptr && !seed->is_null()) || (temperature != nullptr && *temperature == 0);
}

}  // namespace tessera

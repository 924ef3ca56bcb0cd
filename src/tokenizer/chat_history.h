// Brings the messages that clients send into the form that chat templates expect. Nothing here refuses a
// conversation for its past: what cannot be understood is passed on as it came.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tessera {

struct HistoryRules {
  // Kimi K2 counts all calls of a conversation: `functions.NAME:INDEX`. Gateways rewrite ids (`call_ab12`),
  // after which the model begins to write markers as text. The results' tool_call_id follow.
  bool canonical_tool_ids = false;
  // Qwen and Llama templates want a call's arguments as an object, OpenAI's protocol has them as a string. A
  // string that is no JSON object (cut off by max_tokens, say) stays a string.
  bool arguments_as_objects = false;
  // `reasoning` and `reasoning_content` are two spellings: whichever is missing is copied from the other.
  bool both_reasoning_names = true;
};

// Also drops null fields other than `content`, which templates would write as the word None.
nlohmann::ordered_json normalised_history(const nlohmann::ordered_json& messages, const HistoryRules& rules);

// Calls in the history: the index of the next call's id under canonical_tool_ids.
int count_tool_calls(const nlohmann::ordered_json& messages);

}  // namespace tessera

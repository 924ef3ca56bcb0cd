// A client's messages made fit for a chat template. History is never refused: what clients replay (cut
// arguments, renamed ids, lost reasoning) is made the best of, since a conversation that once went wrong must
// go on.
#pragma once

#include <string>

#include "server/protocol/fields.h"

namespace tessera {

struct HistoryOptions {
  // Kimi models expect `functions.NAME:IDX` with IDX counted over the conversation; gateways rename ids, and
  // models then begin to write markers as text (llxprt-code#713). Renames ids that have another form.
  bool canonical_tool_ids = true;
  // Templates that write `arguments | tojson` need objects; those that insert the text as it is (Kimi) need
  // the very text that the model wrote. Text that is no JSON object stays text either way.
  bool arguments_as_objects = false;
};

struct ChatHistory {
  Json messages;               // for the template
  std::int32_t next_tool = 0;  // IDX of the next call of this conversation
};

// Takes messages that read_chat_prompt accepted.
ChatHistory prepare_history(Json messages, const HistoryOptions& options);

// The IDX of `functions.NAME:IDX`, or nothing if the id has another form.
std::optional<std::int32_t> canonical_tool_index(std::string_view id);

}  // namespace tessera

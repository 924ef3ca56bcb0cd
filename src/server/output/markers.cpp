#include "server/output/markers.h"

namespace tessera {

MarkerIds find_markers(const Tokenizer& tokenizer) {
  const auto id = [&](std::string_view text) {
    const auto found = tokenizer.id_of(text);
    return found && tokenizer.is_control(*found) ? *found : -1;
  };
  return {.think_begin = id("<think>"),
          .think_end = id("</think>"),
          .section_begin = id("<|tool_calls_section_begin|>"),
          .section_end = id("<|tool_calls_section_end|>"),
          .call_begin = id("<|tool_call_begin|>"),
          .argument_begin = id("<|tool_call_argument_begin|>"),
          .call_end = id("<|tool_call_end|>")};
}

}  // namespace tessera

#include "server/chat_start.h"

#include <algorithm>

namespace tessera {

SplitterOptions::Start start_of_answer(std::span<const std::int32_t> prompt, const MarkerIds& ids,
                                       std::span<const std::int32_t> end_tokens) {
  for (std::size_t i = prompt.size(); i-- > 0;) {
    const std::int32_t token = prompt[i];
    if (token == ids.think_begin) return SplitterOptions::kInReasoning;
    if (token == ids.think_end || token == ids.section_begin) return SplitterOptions::kInContent;
    if (std::ranges::find(end_tokens, token) != end_tokens.end()) break;
  }
  return SplitterOptions::kUndecided;
}

}  // namespace tessera

// Where an answer starts (in thought or in content), read from the end of its prompt.
#pragma once

#include <cstdint>
#include <span>

#include "server/output/stream_splitter.h"

namespace tessera {

// Looks backwards through the open turn only, that is up to the last end token: earlier turns each hold a
// closed thought. `<think>` first: in reasoning; `</think>` or a tool section first: in content; neither: the
// answer's first token decides.
SplitterOptions::Start start_of_answer(std::span<const std::int32_t> prompt, const MarkerIds& ids,
                                       std::span<const std::int32_t> end_tokens);

}  // namespace tessera

// The control tokens by which a model structures its answer. Each is one token, so the structure is read from
// ids, never from text: a user's or a tool's text that spells a marker cannot be taken for one.
#pragma once

#include <cstdint>

#include "tokenizer/tokenizer.h"

namespace tessera {

// -1: the vocabulary has no such token.
struct MarkerIds {
  std::int32_t think_begin = -1;
  std::int32_t think_end = -1;
  std::int32_t section_begin = -1;  // <|tool_calls_section_begin|>
  std::int32_t section_end = -1;
  std::int32_t call_begin = -1;      // <|tool_call_begin|>, then the call's id as text
  std::int32_t argument_begin = -1;  // <|tool_call_argument_begin|>, then JSON
  std::int32_t call_end = -1;

  bool has_thinking() const { return think_begin >= 0 && think_end >= 0; }
  bool has_tools() const {
    return section_begin >= 0 && section_end >= 0 && call_begin >= 0 && argument_begin >= 0 && call_end >= 0;
  }
};

MarkerIds find_markers(const Tokenizer& tokenizer);

}  // namespace tessera

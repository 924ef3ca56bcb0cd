// What a loader makes and Tokenizer uses. Not for other folders.
#pragma once

#include <optional>
#include <vector>

#include "tokenizer/bpe.h"
#include "tokenizer/control_tokens.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

struct Tokenizer::Parts {
  BpeModel bpe;
  PreTokenizer pretokenizer;
  ControlTokenTable control;
  bool nfc = false;          // text is brought into Unicode normal form C first
  bool cut_as_kimi = false;  // kimi_cuts before anything else
  std::optional<std::int32_t> bos, eos, pad;
  std::vector<std::int32_t> prefix, suffix;  // what the post-processor adds to a plain text
};

}  // namespace tessera

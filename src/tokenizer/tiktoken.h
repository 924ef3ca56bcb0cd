// The Kimi form: `tiktoken.model`, one line a token (base64 of its bytes, blank, rank), and control tokens
// named in tokenizer_config.json. Ids after the last rank are slots for control tokens; a slot without a name
// is called
// `<|reserved_token_ID|>`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/token_names.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

// Bytes by rank. Refuses what is no base64, ranks that do not run from 0 without a gap, and a token named
// twice.
Result<std::vector<std::string>> read_tiktoken_ranks(std::string_view text, const std::string& where);

Result<Tokenizer> make_tiktoken_tokenizer(std::string_view model_text, const TokenNames& names,
                                          const std::string& where);

}  // namespace tessera

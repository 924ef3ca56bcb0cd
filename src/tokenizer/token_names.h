// tokenizer_config.json: the names of the usual tokens, and of the control tokens that a tiktoken.model
// lacks.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

struct TokenNames {
  // ("bos_token", "[BOS]"), ...: as chat templates see them. additional_special_tokens is not among them.
  std::vector<std::pair<std::string, std::string>> named;
  std::vector<ControlToken> added;             // added_tokens_decoder
  std::optional<std::int32_t> reserved_slots;  // num_reserved_special_tokens

  std::optional<std::string> find(std::string_view name) const;
};

// `where` is the file's name, for errors.
Result<TokenNames> read_token_names(std::string_view json_text, const std::string& where);

}  // namespace tessera

// POST /v1/completions.
#pragma once

#include <variant>

#include "server/protocol/generation_options.h"

namespace tessera {

using CompletionPrompt = std::variant<std::string, std::vector<std::int32_t>>;  // text or token ids

struct CompletionRequest {
  GenerationOptions options;
  std::vector<CompletionPrompt> prompts;  // at least one; choices are numbered prompt by prompt
  bool echo = false;
  bool add_special_tokens = true;  // what the model's own tokenizer puts around plain text
};

ApiResult<CompletionRequest> read_completion_request(const Json& body, const GenerationLimits& limits);

}  // namespace tessera

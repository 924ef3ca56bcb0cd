// What chat and text completions have in common, read from the request's fields.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/sampling_params.h"
#include "server/protocol/fields.h"

namespace tessera {

struct GenerationLimits {
  std::int32_t vocab = 0;           // ids in logit_bias, stop_token_ids and prompts lie below it
  std::int32_t max_logprobs = 20;   // alternatives, of generated and of prompt tokens
  std::int32_t max_choices = 128;   // n, and n times the number of prompts
  SamplingParams default_sampling;  // for fields that are absent (the model's generation_config)
};

struct GenerationOptions {
  std::string model;
  std::int32_t n = 1;  // choices for each prompt
  bool stream = false;
  bool include_usage = false;     // a last chunk with the usage
  bool continuous_usage = false;  // and the usage so far in each chunk
  bool report_drafts = false;     // a chunk for each token, saying whether a draft had guessed it
  SamplingParams sampling;        // max_tokens is set when the prompt's length is known; constraint is null
  std::optional<std::int32_t>
      max_tokens;  // absent: default_max_tokens, cut to the room that the context leaves
  std::int32_t default_max_tokens = std::numeric_limits<std::int32_t>::max();
  std::vector<std::string> stop;  // none of them empty
  bool include_stop = false;      // leave the stop string in the text
  bool skip_special = true;
  std::int32_t priority = 0;
  std::string cache_salt;  // prefixes are shared with requests of the same salt only
};

GenerationOptions read_generation_options(Fields& in, ErrorSlot& slot, const GenerationLimits& limits);

}  // namespace tessera

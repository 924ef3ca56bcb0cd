// How the tokens of one request are chosen and when it ends. Checked by validate() before a request enters
// the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera {

// A grammar over tokens: JSON schema, a forced tool call. One object a request; only the engine's thread
// calls it.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // Sets bit t of `mask` ([ceil(vocab / 64)] words) for every token that may come next. At least one is
  // always set.
  virtual void allowed(std::vector<std::uint64_t>& mask) = 0;
  // Throws for a token that it does not allow, and is then as before.
  virtual void accept(std::int32_t token) = 0;
  // Takes back the last `count` accepted tokens (drafts).
  virtual void rollback(std::int32_t count) = 0;
  virtual bool is_complete() const = 0;  // only an end token may follow
};

struct SamplingParams {
  float temperature = 1.0F;
  float top_p = 1.0F;
  std::int32_t top_k = 0;  // 0 or -1: off
  float min_p = 0.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  float repetition_penalty = 1.0F;
  std::optional<std::uint64_t> seed;  // absent: the engine draws one
  std::vector<std::pair<std::int32_t, float>> logit_bias;
  std::int32_t max_tokens = 16;
  std::int32_t min_tokens = 0;  // until then neither end tokens nor stop_token_ids are chosen
  bool ignore_eos = false;
  std::vector<std::int32_t>
      stop_token_ids;                    // end the request when generated; the token is part of the output
  std::optional<std::int32_t> logprobs;  // alternatives besides the chosen token, 0..20
  std::optional<std::int32_t> prompt_logprobs;  // the same for each prompt token, 0..20
  std::shared_ptr<TokenConstraint>
      constraint;  // null: none. Shared with the server only to build it; the engine alone calls it.

  // Every value within its range, or one sentence naming field, value and range. vocab: token ids must lie
  // below it.
  Result<void> validate(std::int32_t vocab) const;
};

}  // namespace tessera

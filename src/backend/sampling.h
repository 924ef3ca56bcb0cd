// What sampling needs to know about each row of logits. Plain data; the engine fills it, a back-end executes
// it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tessera {

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;  // natural logarithm of the model's own probability, before temperature and penalties
  std::int32_t rank = 0;  // 1 = most likely; ties rank the lower id first
};

// One row of logits. Order of the steps (as vLLM applies them): allowed mask and logit bias, min_tokens bans,
// repetition, then frequency and presence penalty, temperature, min_p, top_k, top_p, draw. temperature 0
// takes the arg max (ties: lowest id).
struct SamplingRow {
  float temperature = 1.0F;
  std::int32_t top_k = 0;  // 0: off
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float frequency_penalty = 0.0F;
  float presence_penalty = 0.0F;
  std::uint64_t seed = 0;  // of the request
  std::uint64_t draw = 0;  // index of the token in the request's output: (seed, draw) fixes the random
                           // number, whatever the batch
  std::int32_t logprobs =
      -1;  // alternatives wanted besides the chosen token; -1: none, not even the chosen token's

  std::span<const std::pair<std::int32_t, float>> logit_bias = {};  // (token, added)
  std::span<const std::int32_t> banned = {};         // never chosen: end tokens while under min_tokens
  std::span<const std::uint64_t> allowed = {};       // bit per token; empty: all are allowed
  std::span<const std::int32_t> prompt_tokens = {};  // for the repetition penalty; may repeat
  std::span<const std::pair<std::int32_t, std::int32_t>> out_counts =
      {};  // (token, times generated), for all three penalties
};

// A draft token that a row of logits is to confirm, and the distribution it was drawn from.
struct DraftDraw {
  std::int32_t token = -1;  // -1: no draft, the row is sampled
  float prob = 1;           // of `token` under the draft's distribution
  std::span<const float> probs =
      {};  // [draft vocab] that distribution; empty: the draft was not drawn but chosen
  std::span<const std::int32_t> ids =
      {};  // [draft vocab] token of each entry, ascending; empty: entry i is token i
};

struct SampledToken {
  std::int32_t token = -1;
  float logprob = 0;
  std::int32_t rank = 0;
  bool invalid =
      false;  // the row held a NaN or allowed no token: the request ends with an error, neighbours go on
  std::vector<TokenLogprob> top;  // `logprobs` entries, most likely first
};

}  // namespace tessera

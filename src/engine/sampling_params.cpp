#include "engine/sampling_params.h"

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {
namespace {

constexpr std::int32_t kMostAlternatives =
    20;                                    // OpenAI's limit; more would cost prompt x alternatives of memory
constexpr std::size_t kMostBiases = 1024;  // each costs a write per row and step
constexpr std::size_t kMostStopTokens = 1024;  // compared with every token
constexpr float kMostBias = 100;               // OpenAI's limit; beyond it a float's order of logits is lost

std::string print(float value) {
  std::string text = std::to_string(value);
  if (text.find('.') == std::string::npos) return text;  // nan, inf
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}
std::string print(std::int64_t value) { return std::to_string(value); }

template <class Value>
Error refused(std::string_view field, Value value, std::string_view range) {
  std::string found;
  if constexpr (std::is_floating_point_v<Value>) {
    found = print(value);
  } else {
    found = print(static_cast<std::int64_t>(value));
  }
  return {ErrorKind::kInvalidArgument, std::string(field),
          std::string(field) + " is " + found + ", but must be " + std::string(range) + "."};
}

Result<void> check_token(std::string_view field, std::int32_t token, std::int32_t vocab) {
  if (token >= 0 && token < vocab) return {};
  return refused(field, token, "a token id from 0 to " + std::to_string(vocab - 1));
}

Result<void> check_alternatives(std::string_view field, const std::optional<std::int32_t>& count) {
  if (!count || (*count >= 0 && *count <= kMostAlternatives)) return {};
  return refused(field, *count, "from 0 to " + std::to_string(kMostAlternatives));
}

}  // namespace

// Comparisons are written so that NaN fails them.
Result<void> SamplingParams::validate(std::int32_t vocab) const {
  if (!(temperature >= 0 && std::isfinite(temperature)))
    return refused("temperature", temperature, "finite and at least 0");
  if (!(top_p > 0 && top_p <= 1)) return refused("top_p", top_p, "above 0 and at most 1");
  if (top_k < -1) return refused("top_k", top_k, "at least 1, or 0 or -1 to switch it off");
  if (!(min_p >= 0 && min_p <= 1)) return refused("min_p", min_p, "from 0 to 1");
  if (!(presence_penalty >= -2 && presence_penalty <= 2))
    return refused("presence_penalty", presence_penalty, "from -2 to 2");
  if (!(frequency_penalty >= -2 && frequency_penalty <= 2))
    return refused("frequency_penalty", frequency_penalty, "from -2 to 2");
  if (!(repetition_penalty > 0 && std::isfinite(repetition_penalty)))
    return refused("repetition_penalty", repetition_penalty, "finite and above 0");
  if (logit_bias.size() > kMostBiases)
    return refused("the number of logit_bias entries", logit_bias.size(),
                   "at most " + std::to_string(kMostBiases));
  for (const auto& [token, bias] : logit_bias) {
    TS_TRY(check_token("a token of logit_bias", token, vocab));
    if (!(bias >= -kMostBias && bias <= kMostBias))
      return refused("the logit_bias of token " + std::to_string(token), bias, "from -100 to 100");
  }
  if (max_tokens < 0) return refused("max_tokens", max_tokens, "at least 0");
  if (min_tokens < 0) return refused("min_tokens", min_tokens, "at least 0");
  if (min_tokens > max_tokens)
    return refused("min_tokens", min_tokens, "at most max_tokens, which is " + std::to_string(max_tokens));
  if (stop_token_ids.size() > kMostStopTokens)
    return refused("the number of stop_token_ids", stop_token_ids.size(),
                   "at most " + std::to_string(kMostStopTokens));
  for (const std::int32_t token : stop_token_ids)
    TS_TRY(check_token("a token of stop_token_ids", token, vocab));
  TS_TRY(check_alternatives("logprobs", logprobs));
  TS_TRY(check_alternatives("prompt_logprobs", prompt_logprobs));
  return {};
}

}  // namespace tessera

// What goes into the engine and what comes out of it. Token ids only: text, stop strings and protocols belong
// to the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/sampling.h"
#include "base/error.h"
#include "engine/sampling_params.h"

namespace tessera {

using Clock = std::chrono::steady_clock;

struct RequestId {
  std::uint64_t value = 0;
  friend auto operator<=>(RequestId, RequestId) = default;
};

struct GenerationRequest {
  std::vector<std::int32_t> prompt;  // at least one token
  SamplingParams sampling = {};
  std::int32_t priority = 0;    // lower runs first (vLLM's meaning); equal priorities run in order of arrival
  std::string cache_salt = {};  // requests share cached prefixes only with requests of the same salt
};

enum class FinishReason : std::uint8_t {
  kStop,    // an end token or one of stop_token_ids
  kLength,  // max_tokens, or the context is full
  kAbort,   // cancelled
  kError,   // RequestOutput::error says why
};

struct RequestTimes {
  Clock::time_point arrived;
  Clock::time_point scheduled;  // first token of the prompt was put into a step
  Clock::time_point first_token;
  Clock::time_point last_token;
};

// One step's news of one request. Tokens come in order, each exactly once; the last output has `finished`.
struct RequestOutput {
  RequestId id;
  std::vector<SampledToken>
      tokens;  // usually one; several with speculation, none for prompt logprobs or a finish alone
  std::vector<SampledToken>
      prompt_logprobs;               // of consecutive prompt tokens from the second on (the first has none)
  std::int32_t accepted_drafts = 0;  // how many of `tokens` came from the draft model
  std::optional<FinishReason> finished;
  std::optional<std::int32_t> stop_token;  // the end token, when that ended it
  std::optional<Error> error;
  std::int32_t cached_tokens = 0;  // prompt tokens that were found in the prefix cache
  std::int32_t preemptions = 0;
  RequestTimes times;
};

// Receives a request's outputs on the engine's thread. Must return at once: queue and wake, never wait on a
// client.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  // The output is the engine's, which fills it again in the next step: copy what is needed.
  virtual void on_output(const RequestOutput& output) = 0;
};

}  // namespace tessera

// What /metrics shows, under vLLM's names and labels, so that dashboards made for vLLM work unchanged.
// Histograms and outcomes are counted here, as clients see them; gauges and token counters come from the
// engine's statistics when somebody asks.
//
// The books balance at every scrape: received = finished + aborted + failed + in flight, where a "request" is
// one choice of one prompt, as it is for the engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/engine_client.h"

namespace tessera {

enum class Outcome : std::uint8_t {
  kStop,       // the model, a stop token or a stop string ended it
  kLength,     // max_tokens or the context
  kToolCalls,  // counts as stop in vLLM's names
  kAborted,    // the client left, or the server shut down
  kFailed,     // an error of ours
};

struct RequestRecord {
  Outcome outcome = Outcome::kStop;
  std::int64_t prompt_tokens = 0;
  std::int64_t generation_tokens = 0;
  std::int32_t max_tokens = 0;
  std::int32_t n = 1;
  RequestTimes times;  // epoch values: never reached
};

class Metrics {
 public:
  explicit Metrics(std::string model_name, std::string version);
  ~Metrics();

  // The engine whose statistics are shown from now on; must outlive this or be detached with null.
  void attach(const EngineClient* engine);

  void received();
  void first_token(Clock::duration since_arrival);
  // `tokens` arrived together, `since_last` after the ones before them.
  void next_tokens(Clock::duration since_last, std::size_t tokens);
  void ended(const RequestRecord& record);
  // An answered HTTP request; `path` is one of the server's own, never the client's text.
  void http_answered(std::string_view path, int status);

  std::string render() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

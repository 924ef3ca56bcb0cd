// A completions server without a model, whose timings are known because they are its input: what a load
// generator is checked against. It can be told to behave in the ways that fool people.
//
// Tokens are words: /tokenize answers one id a word, and the text of a token is a word and a blank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tessera::bench {

struct ServerScript {
  double prefill_tokens_per_s = 100'000;  // one prompt at a time
  double step_ms = 20;                    // of a decode step with one request
  double step_ms_each = 0;                // more, for every request beside the first
  std::int32_t tokens_per_step = 1;       // more than one: as if drafts were accepted
  std::int32_t most_running = 1 << 20;    // the rest waits
  std::int64_t max_model_len = 262'144;
  std::int64_t kv_tokens = 0;   // 0: it does not say
  double cold_s = 0;            // after the first request, steps take three times as long
  bool loops = false;           // the output is two words
  std::int64_t ends_after = 0;  // tokens after which requests end, whatever they asked for; 0: never
  std::int64_t miscounts_prompt_by = 0;
  bool counts_as_it_goes = true;  // continuous_usage_stats
  bool caches_prefixes = false;   // says that half of each prompt was cached
};

class PlannedServer {
 public:
  explicit PlannedServer(const ServerScript& script);
  ~PlannedServer();

  std::string url() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::bench

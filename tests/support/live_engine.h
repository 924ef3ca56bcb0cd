// The shipped model behind a real engine, as `tessera serve` starts it, without HTTP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine_setup.h"

namespace tessera::test {

struct Answer {
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;         // of the tokens, when asked for
  std::vector<float> prompt_logprobs;  // of the prompt's tokens from the second on, when asked for
  FinishReason finished = FinishReason::kError;
  std::int32_t cached_tokens = 0;
  std::int32_t preemptions = 0;
};

class LiveEngine {
 public:
  // Flags as ServeFlags has them; the model is the shipped one.
  explicit LiveEngine(ServeFlags flags);

  std::vector<Answer> run(const std::vector<GenerationRequest>& requests);  // all at once
  Answer run(const GenerationRequest& request) { return run(std::vector{request}).front(); }
  Engine& engine() { return *launched_.engine; }

 private:
  LaunchedEngine launched_;
};

}  // namespace tessera::test

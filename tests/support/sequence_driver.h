// Drives a model with hand-made plans for one sequence at a time: what the scheduler would send, with
// every choice of chunks under the test's control.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "support/tiny_model.h"

namespace tessera::test {

class SequenceDriver {
 public:
  explicit SequenceDriver(TinyModel& model);

  // Greedy continuation of `prompt` by `count` tokens, the prompt given in chunks of `chunk` tokens. Rows of
  // logits are kept by position: of the prompt's last token and of each generated one, and of every prompt
  // token when `all_logits`.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt, std::int32_t count,
                                     std::int32_t chunk, bool all_logits = false);

  const std::map<std::int32_t, std::vector<float>>& logits() const { return logits_; }

 private:
  std::int32_t run(std::span<const std::int32_t> tokens, std::int32_t first_position, bool is_decode,
                   bool samples, std::span<const std::int32_t> next_tokens);

  StepRunner& runner_;
  RunnerOptions options_;
  std::int32_t max_blocks_;
  StepPlan plan_;
  bool first_step_ = true;
  std::map<std::int32_t, std::vector<float>> logits_;
};

}  // namespace tessera::test

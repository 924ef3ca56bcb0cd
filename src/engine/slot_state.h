// What a rank remembers of a running sequence in order to sample its next token.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/sampling.h"
#include "engine/step_plan.h"

namespace tessera {

class SlotState {
 public:
  // Reserves so that a sequence of up to max_model_len tokens is tracked without allocating in a step.
  void start(const SequenceStart& start, std::int32_t max_model_len);
  void retire() { active_ = false; }
  bool is_active() const { return active_; }

  // How the next token is to be drawn. Spans point into this state and `allowed`.
  SamplingRow next_row(std::span<const std::uint64_t> allowed) const;
  void append(std::int32_t token);
  std::int32_t last_token() const { return last_token_; }

 private:
  void count(std::int32_t token);

  bool active_ = false;
  bool has_penalties_ = false;
  SamplingParams sampling_;
  std::uint64_t seed_ = 0;
  std::int32_t generated_ = 0;
  std::int32_t last_token_ = -1;
  std::vector<std::int32_t> prompt_;                               // kept only for the repetition penalty
  std::vector<std::pair<std::int32_t, std::int32_t>> out_counts_;  // sorted by token; only with penalties
  std::vector<std::int32_t> end_tokens_;
};

}  // namespace tessera

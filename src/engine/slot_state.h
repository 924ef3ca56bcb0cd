// What a rank remembers of a running sequence in order to sample its next tokens: how, and after which ones.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/sampling.h"
#include "engine/step_plan.h"
#include "speculative/proposer.h"
#include "speculative/verification.h"

namespace tessera {

class SlotState {
 public:
  // Reserves so that a sequence of up to max_model_len tokens is tracked without allocating in a step.
  void start(const SequenceStart& start, std::int32_t max_model_len, std::int32_t most_drafts);
  void retire() { active_ = false; }
  bool is_active() const { return active_; }

  // How the next token is to be drawn, and those after the first `drafts` of the proposal. Spans point into
  // this state and the arguments, which must live until the rows have been used.
  DraftedSequence next_rows(std::int32_t drafts, std::span<const std::int32_t> draft_tokens) const;
  // The most likely token is taken as it is, and nobody asks for its probability.
  bool is_plainly_greedy() const;
  void append(std::int32_t token);

  std::span<const std::int32_t> tokens() const { return tokens_; }  // prompt and output
  std::int32_t last_token() const { return tokens_.back(); }
  float temperature() const { return sampling_.temperature; }
  std::uint64_t seed() const { return seed_; }
  std::uint64_t next_draw() const { return static_cast<std::uint64_t>(generated()); }

  // What was guessed to come next.
  Proposal& proposal() { return proposal_; }
  const Proposal& proposal() const { return proposal_; }

 private:
  void count(std::int32_t token);
  std::int32_t generated() const { return static_cast<std::int32_t>(tokens_.size() - prompt_size_); }

  bool active_ = false;
  bool has_penalties_ = false;
  SamplingParams sampling_;
  std::uint64_t seed_ = 0;
  std::vector<std::int32_t> tokens_;
  std::size_t prompt_size_ = 0;
  Proposal proposal_;
  std::vector<std::pair<std::int32_t, std::int32_t>> out_counts_;  // sorted by token; only with penalties
  std::vector<std::int32_t> end_tokens_;
};

}  // namespace tessera

// From a step's hidden states to its tokens: reads logits where the plan wants some, samples or verifies,
// keeps the sequences' sampling state, scores prompt tokens.
//
// Steps whose rows are all chosen greedily and whose log-probabilities nobody wants read no logits: ranks
// exchange the best token of their shards (model/vocabulary_head.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/slot_state.h"
#include "engine/step_plan.h"
#include "engine/step_rows.h"
#include "model/model.h"
#include "speculative/verification.h"

namespace tessera {

class StepSampler {
 public:
  // Rows of logits made at a time.
  static constexpr std::int32_t kLogitRows = 256;

  struct Limits {
    std::int32_t seqs = 0;
    std::int32_t tokens = 0;  // query tokens in a step
    std::int32_t drafts = 0;  // of a sequence
    bool always_logits = false;
  };
  // Borrows both.
  StepSampler(Backend& backend, Model& model, const Limits& limits);

  // Fills what `result` says of tokens; `rows` are the plan's, `draft_tokens` as Proposer::token_ids.
  void sample(const StepPlan& plan, const StepRows& rows, const Tensor& hidden,
              std::span<const std::int32_t> draft_tokens, std::span<SlotState> slots, StepResult& result);

  // Sees every row of logits before sampling changes it; needs always_logits, on every rank alike: (slot,
  // position of its query token, [vocab]).
  using LogitsTap =
      std::function<void(std::int32_t slot, std::int32_t position, std::span<const float> logits)>;
  void set_tap(LogitsTap tap);

 private:
  struct Row {
    std::int32_t token = 0;  // index into the step's query tokens
    std::int32_t work = 0;
  };

  void list_rows(const StepPlan& plan, const StepRows& step, std::span<const std::int32_t> draft_tokens,
                 std::span<SlotState> slots);
  void choose_greedily(const Tensor& hidden);
  void sample_logits(const StepRows& step, const Tensor& hidden);
  void hand_out(const StepPlan& plan, const StepRows& step, std::span<SlotState> slots, StepResult& result);
  void score_prompts(const StepRows& step, const Tensor& hidden, StepResult& result);
  const std::int32_t* on_device(std::span<const Row> rows);
  Tensor logits_of(const StepRows& step, const Tensor& hidden, std::span<const Row> rows);

  Backend& backend_;
  Model& model_;
  const bool always_logits_;
  LogitsTap tap_;
  std::vector<Row> rows_;    // that choose tokens, in order of work
  bool is_greedy_ = false;   // all of them
  bool has_drafts_ = false;  // some of them confirm one
  VerificationRows verification_;
  std::vector<std::span<const std::uint64_t>> allowed_;  // of a sequence's rows
  std::vector<SampledToken> sampled_;                    // [rows_]
  std::vector<Row> scored_rows_;
  std::vector<std::int32_t> targets_, row_tokens_, best_;
  Buffer device_rows_, device_best_;  // [kLogitRows]
};

}  // namespace tessera

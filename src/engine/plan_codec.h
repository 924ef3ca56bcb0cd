// StepPlans as bytes, for ranks in other processes.
//
//   u32 magic "TSPL" | u32 version | the plan's fields in their order, little-endian; a list is a u32 count
//   and its entries
//
// Block tables travel as their changes (RankView::table_writes) with the entries; the receiver keeps the
// tables. A token constraint does not travel: its masks are in the plan. Bytes are checked against the limits
// that both sides derive from their flags, so a runner never sees a plan that it would abort on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/step_plan.h"

namespace tessera {

inline constexpr std::uint32_t kPlanCodecVersion = 4;

// Replaces what `out` holds; once it has held the largest plan, it allocates nothing.
void encode_plan(const StepPlan& plan, std::vector<std::byte>& out);

struct PlanLimits {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 0;  // tokens
  std::int32_t kv_blocks = 0;   // on each rank
  std::int32_t dcp_ranks = 1;   // views of a plan
  std::int32_t vocab = 0;
  std::int32_t max_drafts = 0;  // of a sequence in a step
  bool shared_table = false;    // plans have one

  // With the places of sequences whose newest token may lie at one of several.
  std::int32_t max_plan_tokens() const { return max_num_batched_tokens + max_num_seqs * max_drafts; }
  std::int32_t max_blocks() const { return (max_model_len + block_size - 1) / block_size; }
  std::int32_t table_rows() const { return (dcp_ranks > 1 ? 2 : 1) * max_num_seqs; }
};

class PlanDecoder {
 public:
  explicit PlanDecoder(const PlanLimits& limits);

  // The plan stands until the next call. After an error the table is not to be relied on: no further plan is
  // taken.
  Result<const StepPlan*> decode(std::span<const std::byte> bytes);

 private:
  Result<void> check() const;
  Result<void> check_work() const;
  Result<void> check_starts() const;

  PlanLimits limits_;
  StepPlan plan_;
  bool broken_ = false;
};

}  // namespace tessera

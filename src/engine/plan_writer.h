// Writes StepPlans in place: the same vectors every step, block table rows rewritten only where they changed.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace tessera {

class PlanWriter {
 public:
  struct Limits {
    std::int32_t max_num_seqs = 0;
    std::int32_t max_num_batched_tokens = 0;
    std::int32_t max_blocks = 0;  // of one sequence
    std::int32_t block_size = 0;
    std::int32_t vocab = 0;
  };
  explicit PlanWriter(const Limits& limits);

  // An empty plan with the next number.
  void begin(std::vector<std::int32_t>& retired);
  void start(const Sequence& sequence);
  // The sequence's `planned` tokens behind its `computed` ones, as the next row.
  void add(Sequence& sequence);

  const StepPlan& plan() const { return plan_; }

 private:
  void write_table_row(std::int32_t row, const Sequence& sequence);

  // What a row of the table shows.
  struct Row {
    std::uint64_t residence = 0;
    std::int32_t blocks = 0;
  };
  Limits limits_;
  StepPlan plan_;
  std::vector<Row> rows_;                                // [max_num_seqs]
  std::vector<std::vector<std::uint64_t>> spare_masks_;  // memory of earlier steps' masks
};

}  // namespace tessera

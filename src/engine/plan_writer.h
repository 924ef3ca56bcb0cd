// Writes StepPlans in place: the same vectors every other step, block table rows rewritten only where they
// changed. There are two plans, written in turns, so that one can be written while a runner still reads the
// one before; the one before that must have been read to its end.
// The plan says for each rank where the rows are that the scheduler's blocks stand for.
#pragma once

#include <array>
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
    std::int32_t most_drafts = 0;
    bool shared_table = false;
    std::int32_t vocab = 0;
  };
  // Borrows the cache that the sequences' blocks belong to.
  PlanWriter(const Limits& limits, const KvCache& kv);

  // An empty plan with the next number, where the one before the last was.
  void begin(std::vector<std::int32_t>& retired);
  void start(const Sequence& sequence);
  // The sequence's `planned` tokens behind those that are computed or fly, as the next row of its spread.
  void add(Sequence& sequence);

  const StepPlan& plan() const { return plans_[current_]; }

 private:
  StepPlan& written() { return plans_[current_]; }
  void reserve(StepPlan& plan) const;
  SequenceWork work_of(const Sequence& sequence) const;
  std::int32_t add_masks(const Sequence& sequence, std::int32_t drafts);
  std::vector<std::uint64_t>& add_empty_mask();
  void add_tokens(const Sequence& sequence, const SequenceWork& work);
  void add_rows_on(std::int32_t rank, const Sequence& sequence);
  void write_table_row(std::int32_t row, const Sequence& sequence);
  void write_shared_row(std::int32_t row, const Sequence& sequence, bool same);

  // What a row of the tables shows.
  struct Row {
    std::uint64_t residence = 0;
    std::int32_t blocks = 0;  // of the sequence
  };
  Limits limits_;
  const KvCache& kv_;
  std::array<StepPlan, 2> plans_;
  std::size_t current_ = 0;                     // of plans_
  std::array<std::int32_t, 2> rows_used_ = {};  // of the plan under way, by spread
  std::vector<Row> rows_;                       // [table_rows]
  std::vector<std::int32_t> shown_;             // [table_rows, ranks] entries that a rank's row shows
  std::vector<std::vector<std::uint64_t>> spare_masks_;  // memory of earlier steps' masks
};

}  // namespace tessera

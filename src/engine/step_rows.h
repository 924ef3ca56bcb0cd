// The rows that a step has on a rank. Mostly they are those of the plan. Where the plan was written before
// the result of the step before it was known (SequenceWork::open_rows), it names the cache rows of every
// position at which a sequence may go on, and the rank, which knows how many drafts stood, takes its own from
// these.
//
// A sequence that has ended meanwhile keeps one row, so that table rows have no gaps and shapes stay the
// same: it is computed, written nowhere, and samples nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/step_plan.h"

namespace tessera {

struct StepRows {
  std::span<const SequenceWork> work;          // as many as in the plan; none is open
  std::span<const std::int32_t> tokens;        // [tokens], here and below
  std::span<const std::int32_t> positions;     //
  std::span<const std::int32_t> next_tokens;   //
  std::span<const std::int64_t> slots;         // of the rank's view
  std::span<const std::int32_t> visible_rows;  // likewise
};

// What a rank knows of a sequence in a slot.
struct SlotStanding {
  std::int32_t newest_position = 0;
  std::int32_t drafts = 0;  // that wait to be verified
};

class RowResolver {
 public:
  // Most query tokens and sequences of a step.
  RowResolver(std::int32_t tokens, std::int32_t seqs);

  // The spans point into the plan and this; they stand until the next call.
  StepRows resolve(const StepPlan& plan, std::int32_t view,
                   const std::function<SlotStanding(std::int32_t slot)>& standing);

 private:
  std::vector<SequenceWork> work_;
  std::vector<std::int32_t> tokens_, positions_, next_tokens_, visible_rows_;
  std::vector<std::int64_t> slots_;
};

}  // namespace tessera

// One step's work as plain data: made by the scheduler, the only thing that ranks receive. Can be logged and
// replayed.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/sampling.h"
#include "engine/sampling_params.h"

namespace tessera {

// A sequence that enters (or re-enters after preemption) the running set. The runner keeps its sampling state
// under `slot` until the slot is named in StepPlan::retired.
struct SequenceStart {
  std::int32_t slot = 0;  // [0, max_num_seqs)
  SamplingParams sampling;
  std::uint64_t seed = 0;  // resolved
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> output;      // tokens generated before a preemption
  std::vector<std::int32_t> end_tokens;  // banned while output is shorter than sampling.min_tokens
};

// The share of one sequence in a step: query tokens [first_token, first_token + count) of the plan's token
// list.
struct SequenceWork {
  std::int32_t slot = 0;
  std::int32_t first_token = 0;
  std::int32_t count = 0;
  std::int32_t first_position = 0;  // of its first query token; everything before lies in the cache
  bool is_decode = false;           // one new token (or one and its drafts): the absorbed form of MLA
  bool samples = false;             // its last query token's logits choose the next token
  std::int32_t prompt_logprobs =
      -1;                          // alternatives wanted for each of its query tokens' successors; -1: none
  std::int32_t allowed_mask = -1;  // index into StepPlan::allowed_masks, -1: every token is allowed
};

// Entries [first, first + count) of row `row` of the block table.
struct TableWrite {
  std::int32_t row = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
  friend bool operator==(const TableWrite&, const TableWrite&) = default;
};

struct StepPlan {
  std::uint64_t step = 0;
  std::vector<std::int32_t> retired;  // slots whose state is dropped before the starts are read
  std::vector<SequenceStart> starts;
  std::vector<SequenceWork> work;  // decodes first, then prefills

  // [tokens]. A token of -1 is the one that the previous step sampled for this sequence, which the host has
  // not seen yet.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> positions;
  std::vector<std::int64_t>
      slots;  // row of the KV pool that takes the token's keys: block * block_size + offset
  // [work, max_blocks]; padded with -1. Complete in every plan, but kept in place from plan to plan: only the
  // entries in table_writes differ from the plan before (rows past the end of `work` keep stale entries), so
  // a runner that keeps the table on its device copies these alone.
  std::vector<std::int32_t> block_table;
  std::int32_t max_blocks = 0;  // the same in every plan of one scheduler
  std::vector<TableWrite> table_writes;
  std::vector<std::int32_t>
      next_tokens;  // [tokens] the token that follows in the prompt, where its logprob is wanted; else -1
  std::vector<std::vector<std::uint64_t>> allowed_masks;
};

struct StepResult {
  std::vector<SampledToken> sampled;          // one for each work with `samples`, in order of work
  std::vector<SampledToken> prompt_logprobs;  // one for each query token of a work with prompt_logprobs >= 0
                                              // whose entry in next_tokens is not -1
};

// Runs plans. The engine owns one; tests give it a fake.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // The result is the runner's own, so that a step allocates nothing; it stands until the next call, and the
  // caller may move the lists of alternatives out of it. Throws (DeviceError and the like) when no further
  // step is possible.
  virtual StepResult& step(const StepPlan& plan) = 0;
};

}  // namespace tessera

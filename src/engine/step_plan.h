// One step's work as plain data: made by the scheduler, the only thing that ranks receive. Can be logged and
// replayed.
#pragma once

#include <cstdint>
#include <functional>
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
  std::int32_t count = 0;  // of a decode: the newest token, then drafts that this step verifies
  // Not 0: the plan was written before the result of the sequence's step before (step_rows.h). The count then
  // covers all places where the newest token may lie; from its real one on at most so many rows run.
  std::int32_t open_rows = 0;
  std::int32_t first_position = 0;  // of its first query token; everything before lies in the cache
  bool is_decode = false;           // one new token (or one and its drafts): the absorbed form of MLA
  bool is_sharded = false;          // its rows are spread over the ranks of a group, not on each of them
  std::int32_t table_row = 0;       // of the block tables
  // Of a sharded prefill: where its earlier blocks begin in StepPlan::context_owners.
  std::int32_t context_owners = -1;
  // The logits of its last query token choose the next one. In a decode those of every row do: they confirm
  // the draft in the next row or replace it.
  bool samples = false;
  std::int32_t drafts_wanted = 0;     // that the runner guesses after this step, for the sequence's next one
  std::int32_t prompt_logprobs = -1;  // alternatives wanted for the successors of its query tokens; -1: none
  // Index into StepPlan::allowed_masks of the mask for its first row with logits; those for the rows of its
  // drafts follow, each as the drafts before it leave it. -1: every token is allowed.
  std::int32_t allowed_mask = -1;
};

// Entries [first, first + count) of row `row` of the block table.
struct TableWrite {
  std::int32_t row = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
  friend bool operator==(const TableWrite&, const TableWrite&) = default;
};

// What one rank of a decode context parallel group keeps and reads. With a group of one there is one view and
// nothing is sharded.
struct RankView {
  // [tokens] row of the rank's KV pool that takes the token's keys: block * block_size + offset; -1: not this
  // rank.
  std::vector<std::int64_t> slots;
  // [tokens] rows of the sequence on this rank that lie at or before the token: the first so many of its
  // table row.
  std::vector<std::int32_t> visible_rows;
  // [table_rows, max_blocks]; a sequence's blocks on this rank in order of position, padded with -1. Complete
  // in every plan, but kept in place from plan to plan: only the entries in table_writes differ from the plan
  // before (rows without work keep stale entries), so a runner that keeps the table on its device copies
  // these alone.
  std::vector<std::int32_t> block_table;
  std::vector<TableWrite> table_writes;
};

struct StepPlan {
  std::uint64_t step = 0;
  std::vector<std::int32_t> retired;  // slots whose state is dropped before the starts are read
  std::vector<SequenceStart> starts;
  // Replicated decodes, sharded decodes, replicated prefills, sharded prefills; the table rows of each of the
  // four follow each other.
  std::vector<SequenceWork> work;

  // [tokens]. A token of -1 is the runner's: the newest one of the sequence, which the host has not seen yet,
  // or, in the rows of a decode after the first, its drafts in order.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> positions;
  std::vector<RankView> views;  // [ranks of a group]
  std::int32_t max_blocks = 0;  // width of the block tables; this and the next are the same in every plan
  // max_num_seqs, twice where sequences can be sharded: the sharded ones' come second.
  std::int32_t table_rows = 0;
  // Which rank owns each block that holds rows before first_position, for the sharded prefills in order: at
  // most max_blocks in all. The ranks gather these rows.
  std::vector<std::uint8_t> context_owners;
  // [table_rows, max_blocks] and its changes, as in RankView: a sequence's blocks by numbers that mean the
  // same on every rank, below the number of all ranks' blocks. For caches that each rank keeps whole, as a
  // draft's; empty where nobody has one.
  std::vector<std::int32_t> shared_table;
  std::vector<TableWrite> shared_writes;
  // [tokens] the token that follows in the prompt, where its logprob is wanted; else -1.
  std::vector<std::int32_t> next_tokens;
  std::vector<std::vector<std::uint64_t>> allowed_masks;
};

struct StepResult {
  // For each work with `samples`, in order of work: the tokens it gained, its first drafts and one more; how
  // many these are, between 1 and its rows; how many rows it had. Both 0: the sequence had ended before.
  std::vector<SampledToken> sampled;
  std::vector<std::int32_t> gained;
  std::vector<std::int32_t> rows;
  // Likewise how many drafts wait for its next step, and which. Written last: where a listener hears of the
  // tokens before (StepRunner::set_listener), not before the step is over.
  std::vector<std::int32_t> drafted;
  std::vector<std::int32_t> draft_tokens;
  // One for each query token of a work with prompt_logprobs >= 0 whose entry in next_tokens is not -1.
  std::vector<SampledToken> prompt_logprobs;

  void clear() {
    sampled.clear();
    gained.clear();
    rows.clear();
    drafted.clear();
    draft_tokens.clear();
    prompt_logprobs.clear();
  }
};

// Runs plans. The engine owns one; tests give it a fake.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // The result is the runner's own, so that a step allocates nothing; it stands until the next call, and the
  // caller may move the lists of alternatives out of it. Throws (DeviceError and the like) when no further
  // step is possible.
  virtual StepResult& step(const StepPlan& plan) = 0;

  // Hears of a step's tokens before the drafts for the next one are made, so that whoever plans need not wait
  // for these; on any thread, during step(). The result then stands until the listener hears of the step
  // after the next. A runner that cannot tell early never calls it.
  using Listener = std::function<void(StepResult&)>;
  virtual void set_listener(Listener) {}
};

}  // namespace tessera

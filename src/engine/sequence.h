// One request inside the engine, as plain counters. Made by prepare_sequence() on a client's thread, owned by
// the scheduler from then on, touched by the engine's thread alone.
//
//   tokens     | prompt ........................ | output ......... | drafts |
//   rows       | computed ............. | flying | planned |                     rows lie in `blocks`
//
// Rows fly while their step is under way. With a decode's drafts, how many rows will stand and how many
// tokens it gains is not known until the step's result is: the counters below say what is certain, and how
// much may come on top.
//
// A sequence decodes when its rows lack only the last token's; it may then verify drafts, which become tokens
// as far as they stand. Every other state is prefill, also the return of a preempted sequence, whose output
// is computed again like a prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "kvcache/kv_cache.h"

namespace tessera {

struct Sequence {
  RequestId id;  // grows with arrival
  std::int32_t priority = 0;
  std::shared_ptr<RequestSink> sink;      // shared with the server, which may outlive or forget the request
  SamplingParams sampling;                // max_tokens is cut to the room in the context
  std::uint64_t seed = 0;                 // resolved
  std::vector<std::int32_t> stop_tokens;  // end tokens, unless ignored, and stop_token_ids
  bool is_open_ended = false;  // max_tokens is only what the context leaves: no hint of the real length

  std::vector<std::int32_t> tokens;  // prompt, then output
  std::int32_t prompt_size = 0;

  std::int32_t computed = 0;  // leading tokens whose rows are in the pool, as far as results are known
  std::int32_t planned = 0;   // rows of the step being planned, at most
  std::int32_t places = 0;    // positions at which these may lie: `planned`, or more behind a flying decode
  // Of the newest step that is under way and has the sequence.
  std::uint64_t flying_step = 0;   // its number
  std::int32_t flying_rows = 0;    // that will stand: of a prompt all, of a decode the first
  std::int32_t flying_drafts = 0;  // that it verifies at most; each that stands is one more row and token
  std::int32_t flying_tokens = 0;  // that it brings for certain: 0 or 1
  std::int32_t most_computed = 0;  // before a preemption; rows below it are recomputed ones
  SequenceBlocks blocks;           // of ceil((computed + planned) / block_size) or more
  std::vector<BlockHash> hashes;   // of the leading full blocks of `tokens`
  std::int32_t remembered = 0;     // leading blocks that were offered to the prefix cache
  BlockHash root;                  // parent of hashes[0]

  std::int32_t slot = -1;          // of the runner; -1: not running
  bool is_started = false;         // the runner knows the slot
  std::int32_t decode_row = -1;    // index among the decoding sequences of its spread; -1: not decoding
  std::int32_t drafts = 0;         // that wait in the runner for its next step
  bool drafts_known = true;        // else there may be fewer
  std::int32_t drafts_wanted = 0;  // after the step under way
  // With a grammar, which masks the rows of drafts: which ones wait, and how many more it did not allow.
  std::vector<std::int32_t> draft_tokens;
  std::int32_t drafts_refused = 0;
  std::uint64_t residence = 0;  // number of its stay in the running set: tells rows of an earlier stay apart

  std::int32_t prompt_logprobs_given = 0;
  std::int32_t cached_tokens = 0;
  std::int32_t preemptions = 0;
  bool was_scheduled = false;
  bool prefill_counted = false;
  RequestTimes times;

  std::int32_t size() const { return static_cast<std::int32_t>(tokens.size()); }
  std::int32_t generated() const { return size() - prompt_size; }
  std::int32_t remaining() const { return sampling.max_tokens - generated(); }
  std::int32_t next_row() const { return computed + flying_rows; }  // first one of the next step, or a later
  std::int32_t certain_size() const { return size() + flying_tokens; }
  std::int32_t certain_remaining() const { return remaining() - flying_tokens; }  // at most
  // Rows of a sequence that has all its tokens: the last one's is never needed.
  std::int32_t last_row() const { return prompt_size + sampling.max_tokens - 1; }
  bool wants_prompt_logprobs() const {
    return sampling.prompt_logprobs.has_value() && prompt_logprobs_given < prompt_size - 1;
  }
};

// Better priority first, then order of arrival; a preempted sequence came before all who still wait.
struct RanksBefore {
  bool operator()(const Sequence* a, const Sequence* b) const {
    if (a->priority != b->priority) return a->priority < b->priority;
    return a->id < b->id;
  }
};

struct SequenceLimits {
  std::int32_t vocab = 0;
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 0;
  std::int32_t kv_blocks = 0;  // of all ranks together, one copy of each
  bool prefix_caching = true;
  std::vector<std::int32_t> end_tokens = {};
  HashKey hash_key;
};

// Refuses what could never run, with both numbers. O(prompt): hashes its blocks.
Result<std::unique_ptr<Sequence>> prepare_sequence(RequestId id, GenerationRequest request,
                                                   std::shared_ptr<RequestSink> sink, std::uint64_t seed,
                                                   const SequenceLimits& limits);

// Brings `hashes` up to the full blocks within the first `tokens` tokens.
void extend_hashes(Sequence& sequence, std::int32_t tokens, std::int32_t block_size, HashKey key);

}  // namespace tessera

// What one rank will hold, item by item, learnt by running the code that starts it (engine/rank_start.h) on a
// back-end that only counts. So shares, scratch and buffers are those of the real start, whatever that comes
// to be.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "engine/model_runner.h"
#include "engine/rank_memory.h"
#include "plan/device_model.h"
#include "speculative/speculative_config.h"

namespace tessera {

struct RankPlace {
  int rank = 0;
  int ranks = 1;
  int context_ranks = 1;  // of them, those that share the rows of the cache
  bool expert_parallel = false;
};

// A draft beside the target: of any method.
struct PlannedDraft {
  const SpeculativeConfig* config = nullptr;   // resolved
  const Checkpoint* outline = nullptr;         // null for ngram
  KvFormat automatic_format = KvFormat::kF32;  // of its rows where config says nothing
};

// `outline` is Checkpoint::outline() of the model. Caches are counted by the block: options.kv_blocks does
// not matter, and kv_cache and draft_cache are 0.
Result<RankMemory> measure_rank(const Checkpoint& outline, const DeviceModel& device,
                                const RunnerOptions& options, const RankPlace& place,
                                const PlannedDraft* draft = nullptr);
// The largest of all ranks, item by item, whatever place.rank says: shares may differ by an expert or a few
// rows of the vocabulary.
Result<RankMemory> measure_ranks(const Checkpoint& outline, const DeviceModel& device,
                                 const RunnerOptions& options, RankPlace place,
                                 const PlannedDraft* draft = nullptr);

// With pools of so many blocks on each of `context_ranks` ranks. A draft's cache has the rows of every rank's
// blocks.
RankMemory with_caches(RankMemory memory, std::int64_t blocks, int context_ranks);
// What one more block on each rank costs each rank.
std::int64_t block_cost(const RankMemory& memory, int context_ranks);

}  // namespace tessera

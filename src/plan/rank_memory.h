// What one rank holds, item by item, learnt by running the code that loads it on a back-end that only counts.
// So shares, scratch and buffers are those of the real load, whatever that comes to be.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "engine/model_runner.h"
#include "plan/device_model.h"

namespace tessera {

struct RankMemory {  // bytes
  std::array<std::int64_t, kModuleClasses> weights{};
  std::int64_t rope_tables = 0;
  std::int64_t activations = 0;  // of one step, logits included
  std::int64_t scratch = 0;      // the back-end's own: split attention, expansion, experts, sampling
  std::int64_t inputs = 0;       // what a step is told, block tables included; rows that prefills gather
  std::int64_t kv_block = 0;     // one block of the cache, all layers

  std::int64_t weight_sum() const;
  std::int64_t without_kv() const { return weight_sum() + rope_tables + activations + scratch + inputs; }
};

struct RankPlace {
  int rank = 0;
  int ranks = 1;
  int context_ranks = 1;  // of them, those that share the rows of the cache
  bool expert_parallel = false;
  DcpExchange exchange = DcpExchange::kAllToAll;
};

// `outline` is Checkpoint::outline() of the model; options.kv_blocks does not matter.
Result<RankMemory> measure_rank(const Checkpoint& outline, const DeviceModel& device,
                                const RunnerOptions& options, const RankPlace& place);
// The largest of all ranks, item by item, whatever place.rank says: shares may differ by an expert or a few
// rows of the vocabulary.
Result<RankMemory> measure_ranks(const Checkpoint& outline, const DeviceModel& device,
                                 const RunnerOptions& options, RankPlace place);

// What a draft adds to each rank, in bytes.
struct DraftMemory {
  std::int64_t weights = 0;        // without the embedding and head that it shares with the target
  std::int64_t scratch = 0;        // its passes, its choices, its rope table
  std::int64_t hidden_states = 0;  // the target's auxiliary states of a step
  std::int64_t kv_block = 0;       // one block's rows, all its layers
};
struct DraftChoice {
  std::int32_t tokens = 3;  // of a proposal
  KvFormat kv_format = KvFormat::kBF16;
};
// Of an EAGLE-3 or DFlash draft, by loading it beside its target in the same way. The first rank's share.
Result<DraftMemory> measure_draft(const Checkpoint& target, const Checkpoint& draft,
                                  const DeviceModel& device, const RunnerOptions& options,
                                  const RankPlace& place, const DraftChoice& choice);

}  // namespace tessera

// From a resolved configuration to the proposer of one rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/shard.h"
#include "speculative/proposer.h"
#include "speculative/speculative_config.h"

namespace tessera {

// What LoadOptions::aux_layers of the target must name for this draft; nothing for methods that read tokens
// alone.
std::vector<std::int64_t> aux_layers_for(const SpeculativeConfig& config, const ModelConfig& target,
                                         const ModelConfig* draft);

// Whether the method keeps keys and values of its own, under the blocks of StepPlan::shared_table.
inline bool has_draft_cache(const SpeculativeConfig& config) {
  return config.method != SpeculativeMethod::kNgram;
}

struct ProposerSetup {
  Backend& backend;
  Model& target;  // of this rank, loaded with aux_layers_for(); must outlive the proposer
  const ModelConfig& target_config;
  const Checkpoint* draft = nullptr;  // null for ngram; may be closed afterwards
  Shard shard = {};                   // the target's; a draft's cache is whole on each rank
  std::int32_t max_seqs = 0;
  std::int32_t max_tokens = 0;  // of a step
  std::int32_t max_model_len = 0;
  std::int32_t blocks = 0;  // of all ranks' pools together
  std::int32_t block_size = 0;
  KvFormat automatic_format = KvFormat::kF32;  // of the draft's rows where the configuration says auto
  std::int32_t deferred_rows = 32;             // HiddenStateProposerOptions::deferred_rows
};

// `config` as resolve_speculation() gives it.
Result<std::unique_ptr<Proposer>> make_proposer(const SpeculativeConfig& config, const ProposerSetup& setup);

}  // namespace tessera

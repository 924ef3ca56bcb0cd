// From a configuration to a proposer on one rank.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "speculative/proposer.h"
#include "speculative/speculative_config.h"

namespace tessera {

struct ProposerLimits {
  std::int32_t max_seqs = 0;
  std::int32_t max_tokens = 0;     // query tokens of the target in a step
  std::int32_t max_model_len = 0;  // longest sequence
  std::int32_t block_size = 0;     // tokens
  std::int32_t blocks = 0;         // of all ranks together (StepPlan::shared_table)
};

// Hidden states that the target must hand out: LoadOptions::aux_layers. `draft` is null for ngram.
Result<std::vector<std::int64_t>> aux_layers_for(const SpeculativeConfig& config, const ModelConfig* draft,
                                                 const ModelConfig& target);

// Whether the method keeps keys and values of its own.
inline bool has_draft_cache(const SpeculativeConfig& config) {
  return config.method != SpeculativeMethod::kNgram;
}

// `config` is resolved. The target, its back-end and its communicators must outlive the proposer; the
// checkpoint (null for ngram) may be closed afterwards.
Result<std::unique_ptr<Proposer>> load_proposer(const SpeculativeConfig& config, const Checkpoint* draft,
                                                const ModelConfig& target_config, Model& target,
                                                Backend& backend, const Shard& shard,
                                                const ProposerLimits& limits);

}  // namespace tessera

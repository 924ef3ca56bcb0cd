// From --speculative-config to what the engine and its ranks need of it.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "serve_flags.h"
#include "speculative/gate.h"
#include "speculative/load_proposer.h"
#include "speculative/speculative_config.h"

namespace tessera {

// The draft that is served with, opened and found to fit the target.
struct Speculation {
  SpeculativeConfig config;         // resolved
  std::optional<Checkpoint> draft;  // absent for ngram
  std::vector<std::int64_t> aux_layers;  // that the target hands out

  std::int32_t most_drafts() const { return config.num_speculative_tokens; }
  GateOptions gate() const;
};

// Nothing where the flags ask for none.
Result<std::optional<Speculation>> open_speculation(const ServeFlags& flags, const ModelConfig& target);

}  // namespace tessera

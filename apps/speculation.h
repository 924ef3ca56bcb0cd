// From --speculative-config to what the engine and its ranks need of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "serve_flags.h"
#include "speculative/draft_trial.h"
#include "speculative/gate.h"
#include "speculative/make_proposer.h"
#include "speculative/speculative_config.h"

namespace tessera {

// The draft that is served with, opened and found to fit the target.
struct Speculation {
  SpeculativeConfig config;              // resolved
  std::optional<Checkpoint> draft;       // absent for ngram
  std::vector<std::int64_t> aux_layers;  // that the target hands out

  std::int32_t most_drafts() const { return config.num_speculative_tokens; }
  const Checkpoint* checkpoint() const { return draft ? &*draft : nullptr; }
  std::string describe() const;  // "eagle3, up to 3 drafts of models/…"
  GateOptions gate() const;
};

// How the draft did at start, as a line of the log; a warning where it does not fit.
void log_trial(const DraftTrialReport& report);

// Null where the flags ask for none.
Result<std::shared_ptr<const Speculation>> open_speculation(const ServeFlags& flags,
                                                            const ModelConfig& target);

}  // namespace tessera

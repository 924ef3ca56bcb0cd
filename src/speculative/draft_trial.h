// Before serving: does the draft understand this target? The target writes a text of its own, by sampling:
// that is what it knows to say, whatever it was trained on. The draft guesses what the target likes best at
// each place, once from the hidden states as they will be handed to it, and once for every other order of the
// layers that they come from. A draft that fits guesses best from its own order, and well; one that reads the
// wrong states does neither.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "backend/backend.h"
#include "model/model.h"
#include "speculative/proposer.h"

namespace tessera {

struct DraftTrialSetup {
  Backend& backend;
  Model& target;
  Proposer& proposer;
  std::int64_t hidden;          // width of the target
  std::span<const KvLayer> kv;  // the target's pool; its first blocks are written to
  std::int32_t first_token;     // of the text: the one that begins texts, if the model has such a token
  std::int32_t tokens = 112;    // of the text
};

struct DraftTrialReport {
  std::int32_t guessed = 0;     // tokens that the draft had to guess
  std::int32_t right = 0;       // first drafts that were right
  std::int32_t best_other = 0;  // the same with the hidden states in the best of the other orders
  double rate() const { return guessed > 0 ? static_cast<double>(right) / guessed : 0; }
};

// Runs on every rank alike. Leaves the pool's contents undefined, and the proposer without sequences.
DraftTrialReport try_draft(const DraftTrialSetup& setup);

// A warning, where the report shows a draft that does not fit.
std::optional<std::string> warning_of(const DraftTrialReport& report);

}  // namespace tessera

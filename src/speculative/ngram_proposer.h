// Proposes what the sequence itself said before (method "ngram"). Needs no weights, and no hidden states.
#pragma once

#include <vector>

#include "speculative/ngram_index.h"
#include "speculative/proposer.h"

namespace tessera {

struct NgramOptions {
  std::int32_t max_seqs = 0;
  std::int32_t most_drafts = 0;
  std::int32_t shortest = 1;  // prompt_lookup_min
  std::int32_t longest = 3;   // prompt_lookup_max
};

class NgramProposer final : public Proposer {
 public:
  explicit NgramProposer(const NgramOptions& options);

  std::int32_t most_drafts() const override { return most_drafts_; }
  std::int32_t lookahead(std::int32_t) const override { return 0; }
  void start(std::int32_t slot, std::span<const std::int32_t> tokens, std::int32_t cached) override;
  void retire(std::int32_t slot) override;
  void propose(std::span<const ProposerWork> work, const Tensor& aux, std::span<Proposal> proposals) override;

 private:
  std::int32_t most_drafts_;
  std::vector<NgramIndex> slots_;  // [max_seqs]
};

}  // namespace tessera

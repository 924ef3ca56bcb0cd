#include "speculative/ngram_proposer.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {

NgramProposer::NgramProposer(const NgramOptions& options)
    : most_drafts_(options.most_drafts),
      slots_(static_cast<std::size_t>(options.max_seqs), NgramIndex(options.shortest, options.longest)) {}

void NgramProposer::start(std::int32_t slot, std::span<const std::int32_t> tokens, std::int32_t) {
  NgramIndex& index = slots_[static_cast<std::size_t>(slot)];
  index.clear();
  index.append(tokens);
}

void NgramProposer::retire(std::int32_t slot) { slots_[static_cast<std::size_t>(slot)].clear(); }

void NgramProposer::propose(std::span<const ProposerWork> work, const Tensor&,
                            std::span<Proposal> proposals) {
  TS_CHECK(proposals.size() == work.size(), proposals.size(), work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    const ProposerWork& one = work[i];
    NgramIndex& index = slots_[static_cast<std::size_t>(one.slot)];
    // The prompt is known from the start; what the step added is the rest of the work's tokens.
    const auto known = static_cast<std::int32_t>(index.tokens().size());
    TS_CHECK(one.first_position <= known, one.first_position, known);
    const auto old = std::min(static_cast<std::size_t>(known - one.first_position), one.tokens.size());
    index.append(one.tokens.subspan(old));
    proposals[i].tokens.clear();
    proposals[i].probs.clear();
    if (one.drafts > 0) index.lookup(std::min(one.drafts, most_drafts_), proposals[i].tokens);
  }
}

}  // namespace tessera

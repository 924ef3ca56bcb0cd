// Proposing allocates nothing once every proposal has its capacity, whatever the mixture of draft lengths.
#include <gtest/gtest.h>

#include "speculative/hidden_state_proposer.h"
#include "speculative/model_proposer.h"
#include "support/allocation_count.h"
#include "support/draft_rig.h"
#include "support/golden.h"

namespace tessera::test {
namespace {

constexpr std::int32_t kSeqs = 4;
constexpr std::int32_t kBlocksEach = 16;
constexpr std::int32_t kBlockSize = 16;

// Four sequences with a prompt of 40 tokens, then steps of one token each (true or not, is all the same
// here), wanting `step + slot` drafts, modulo five, every third step none.
std::int64_t allocations_of_steps(Proposer& proposer, std::int64_t aux_width, std::int32_t most) {
  std::vector<std::vector<std::int32_t>> tables(kSeqs);
  for (std::int32_t s = 0; s < kSeqs; ++s) {
    for (std::int32_t b = 0; b < kBlocksEach; ++b)
      tables[static_cast<std::size_t>(s)].push_back(b * kSeqs + s);
  }
  const std::vector<std::int32_t> prompt = golden_prompt("len64").ids;
  std::vector<float> values(static_cast<std::size_t>(kSeqs * 40 * aux_width), 0.01F);
  const Tensor aux = Tensor::dense(values.data(), DType::kF32, kSeqs * 40, aux_width);
  std::vector<Proposal> proposals(kSeqs);
  std::vector<ProposerWork> work(kSeqs);
  const std::span<const std::int32_t> tokens(prompt);
  for (std::int32_t s = 0; s < kSeqs; ++s) {
    proposer.start(s, tokens.first(40), 0);
    work[static_cast<std::size_t>(s)] = {.slot = s,
                                         .is_decode = false,
                                         .first_row = 40 * s,
                                         .first_position = 0,
                                         .tokens = tokens.first(41),
                                         .block_table = tables[static_cast<std::size_t>(s)],
                                         .drafts = most};
  }
  proposer.propose(work, aux, proposals);
  std::int64_t before = 0;
  for (std::int32_t step = 0; step < 20; ++step) {
    if (step == 6) before = allocations();
    for (std::int32_t s = 0; s < kSeqs; ++s) {
      ProposerWork& one = work[static_cast<std::size_t>(s)];
      one.is_decode = true;
      one.first_row = s;
      one.first_position = 40 + step;
      one.tokens = tokens.subspan(static_cast<std::size_t>(40 + step), 2);
      one.drafts = step % 3 == 2 ? 0 : std::min(most, (step + s) % 5);
    }
    proposer.propose(work, aux, proposals);
  }
  return allocations() - before;
}

TEST(Proposing, AllocatesNothing) {
  for (const char* name : {"eagle3", "eagle3-mla", "dflash"}) {
    const HiddenStateProposerOptions options{
        .max_seqs = kSeqs,
        .max_tokens = 160,
        .max_model_len = kBlocksEach * kBlockSize,
        .most_drafts = 3,
        .deferred_rows = 8,
        .cache = {.blocks = kSeqs * kBlocksEach, .block_size = kBlockSize}};
    DraftRig rig = load_draft_rig(
        name, {.tokens = 4, .decode_tokens = 4, .seqs = 1, .logit_rows = 1, .positions = 64},
        HiddenStateProposer::draft_limits(open_model(std::string("tessera-tiny-") + name).config(), options));
    HiddenStateProposer proposer(*rig.backend, std::move(rig.draft), options);
    EXPECT_EQ(allocations_of_steps(proposer, 768, 3), 0) << name;
  }
}

TEST(Proposing, WithALanguageModelAllocatesNothing) {
  const ModelProposerOptions options{.max_seqs = kSeqs,
                                     .max_tokens = 160,
                                     .max_model_len = kBlocksEach * kBlockSize,
                                     .positions = kBlocksEach * kBlockSize,
                                     .most_drafts = 3,
                                     .deferred_rows = 8,
                                     .cache = {.blocks = kSeqs * kBlocksEach, .block_size = kBlockSize}};
  const StepLimits small{.tokens = 4, .decode_tokens = 4, .seqs = 1, .logit_rows = 1, .positions = 64};
  DraftRig rig = load_draft_rig("eagle3", small, small);
  auto model = load_model(rig.target_checkpoint, *rig.backend,
                          {.limits = ModelProposer::model_limits(options), .on_bytes = {}});
  ASSERT_TRUE(model.ok());
  ModelProposer proposer(*rig.backend, *std::move(model), options);
  EXPECT_EQ(allocations_of_steps(proposer, 0, 3), 0);
}

}  // namespace
}  // namespace tessera::test

// Whoever guesses the next tokens of running sequences. One proposer serves all sequences of a rank; one
// thread drives it, between the target's forward passes. Every rank's proposer makes the same guesses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/device_memory.h"
#include "tensor/tensor.h"

namespace tessera {

// What one sequence did in the step that has just run, and what is wanted next.
struct ProposerWork {
  std::int32_t slot = 0;            // of the sequence, [0, max_seqs)
  bool is_decode = true;            // else a chunk of a prompt
  std::int32_t first_row = 0;       // of its rows in the step, for aux states
  std::int32_t first_position = 0;  // of its first row
  // [rows that stand + 1]: the rows' own tokens (the whole chunk; or the newest token before and its accepted
  // drafts, never rejected ones), then the token that follows: sampled, or the prompt's next.
  std::span<const std::int32_t> tokens = {};
  std::span<const std::int32_t> block_table =
      {};                   // the sequence's blocks; drafts need lookahead() rows in them
  std::int32_t drafts = 0;  // wanted; 0: none (an unfinished prompt, the gate)

  // For drafts that are drawn rather than chosen.
  float temperature = 0;
  std::uint64_t seed = 0;
  std::uint64_t draw = 0;  // index in the request's output of the first drafted token
  // The request's tokens shall be those of its seed without speculation: its drafts are drawn with the
  // numbers that the target will draw with (the closer the two distributions, the oftener they agree), and
  // probs stays empty, so that the target's own draw decides.
  bool keeps_seed = false;

  std::int32_t newest_position() const {
    return first_position + static_cast<std::int32_t>(tokens.size()) - 1;
  }
};

struct Proposal {
  std::vector<std::int32_t> tokens;  // in order; fewer than wanted, or none, where there is nothing to say
  // [tokens, entries of the draft's vocabulary]: what each token was drawn from; empty where it was chosen.
  std::vector<float> probs;
};

class Proposer {
 public:
  virtual ~Proposer() = default;

  virtual std::int32_t most_drafts() const = 0;
  // Rows of the sequence's blocks past its newest token that drafting `drafts` tokens writes: fewer rows give
  // fewer drafts.
  virtual std::int32_t lookahead(std::int32_t drafts) const = 0;
  // Token of each entry of Proposal::probs; empty: entry i is token i.
  virtual std::span<const std::int32_t> token_ids() const { return {}; }

  // Bytes that this rank has received from others in order to choose drafts: 8 for each draft and rank.
  virtual std::int64_t exchanged_bytes() const { return 0; }

  // The draft's own cache of keys and values.
  virtual CacheMemory cache() const { return {}; }

  // A sequence enters under `slot`: its prompt and earlier output, of which the cache holds `cached` tokens.
  virtual void start(std::int32_t slot, std::span<const std::int32_t> tokens, std::int32_t cached) = 0;
  // It leaves, or is preempted; to be called before its blocks are given to others. Blocks are complete then.
  virtual void retire(std::int32_t slot) = 0;
  // After every step, with every sequence of it, also those that want no drafts: proposals[i] for work[i].
  // Sequences in decode form first, as in the step. aux: the target's hidden states of the step's rows.
  virtual void propose(std::span<const ProposerWork> work, const Tensor& aux,
                       std::span<Proposal> proposals) = 0;
};

}  // namespace tessera

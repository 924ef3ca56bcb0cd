// Verifying drafts: which rows of logits to sample and how, and which tokens come out.
//
// A sequence with k drafts has 1 + k rows: row i follows the newest token and drafts 0 .. i - 1, and is
// sampled as if these stood. Tokens are emitted up to the first row whose token is not its draft, that one
// included: between 1 and 1 + k. So every token is drawn from the target's own distribution, with the
// request's own numbers: Backend::verify says why. Rows whose draft was chosen, and all rows of a request
// with a seed of its own, give exactly the tokens that they give without speculation.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/sampling.h"

namespace tessera {

struct DraftedSequence {
  SamplingRow next;                          // how its next token would be drawn
  std::span<const std::int32_t> drafts;      // may be empty
  std::int32_t min_tokens_left = 0;          // tokens that must come before an end token may
  std::span<const std::int32_t> end_tokens;  // banned until then
  // What the drafts were drawn from, [drafts, draft vocab], and the token of each entry (empty: entry i is
  // token i). Empty: they were chosen, or the request's seed shall give the tokens that it gives without
  // speculation.
  std::span<const float> probs = {};
  std::span<const std::int32_t> token_ids = {};
  // Grammar: the mask of each row, as the drafts before it would leave it; empty: all are allowed.
  std::span<const std::span<const std::uint64_t>> allowed = {};
};

// The rows of a step, sequence after sequence, ready for Backend::verify. Reuses its memory from step to
// step.
class VerificationRows {
 public:
  void clear();
  // Spans of `sequence` must live until the rows have been used. Rows after the first see its drafts in the
  // counts that penalties read.
  void add(const DraftedSequence& sequence);

  std::span<const SamplingRow> rows() const { return rows_; }
  std::span<const DraftDraw> drafts() const { return drafts_; }

 private:
  using Counts = std::vector<std::pair<std::int32_t, std::int32_t>>;
  Counts& next_counts();

  std::vector<SamplingRow> rows_;
  std::vector<DraftDraw> drafts_;
  std::vector<Counts> counts_;  // kept for reuse; counts of rows after a sequence's first
  std::size_t used_counts_ = 0;
};

// How many of a sequence's drafts stand, from the results of its 1 + drafts rows. Results [0, accepted] are
// what it emits; the last of them may be invalid, which ends the request. Tokens after an end token or a stop
// token are the caller's to drop.
std::int32_t accepted_drafts(std::span<const std::int32_t> drafts, std::span<const SampledToken> results);

}  // namespace tessera

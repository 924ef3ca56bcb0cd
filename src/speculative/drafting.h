// The sequences of a step that draft next, and the choice of their tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "speculative/proposer.h"

namespace tessera {

// A sequence that drafts: its work's index, its row in the pass that has just run, its drafts.
struct Drafting {
  std::int32_t work = 0;
  std::int32_t row = 0;
  std::int32_t drafts = 0;
};

// Longest drafts first, so that those still drafting are always the first ones of the list.
void sort_by_drafts(std::vector<Drafting>& drafting);
// How many of a sorted list want more than `drafts` drafts.
std::int32_t still_drafting(std::span<const Drafting> drafting, std::int32_t drafts);

// Positions that the sequence's blocks and the draft's tables can hold.
std::int32_t rows_within(const ProposerWork& work, std::int32_t block_size, std::int64_t positions);

// The head of whatever ran the last pass. Rows are on the device.
class LogitSource {
 public:
  virtual ~LogitSource() = default;
  virtual void argmax(const std::int32_t* rows, std::int64_t count, std::int32_t* tokens) = 0;
  virtual Tensor logits(const std::int32_t* rows, std::int64_t count) = 0;  // f32 [count, draft vocab]
  virtual std::span<const std::int32_t> token_ids() const = 0;              // as DraftModel::token_ids
  virtual std::int64_t argmax_bytes() const = 0;                            // likewise
};

// Chooses or draws one token for each of some rows and brings them to the host.
class TokenChoice {
 public:
  TokenChoice(Backend& backend, std::int32_t most_rows, bool draws);

  // For drafting[i] its token number `index`, from row drafting[i].row + ahead. Adds it to its proposal (with
  // what it was drawn from); a row with a NaN gives none and ends that sequence's drafts. Sorts again.
  void choose(LogitSource& source, std::span<const ProposerWork> work, std::int32_t index, std::int32_t ahead,
              std::vector<Drafting>& drafting, std::span<Proposal> proposals);

  // What this rank has received so far in order to choose tokens (not to draw them).
  std::int64_t exchanged_bytes() const { return exchanged_bytes_; }

  // Row numbers, carried to the device; valid until the next call.
  const std::int32_t* on_device(std::span<const std::int32_t> rows);

 private:
  // Of logits_.
  std::int32_t draw(const ProposerWork& work, std::int32_t index, Proposal& proposal);

  Backend& backend_;
  bool draws_;
  std::vector<std::int32_t> rows_, tokens_;
  std::vector<float> logits_, probs_;  // [draft vocab]
  Buffer device_rows_, device_tokens_;
  std::int64_t exchanged_bytes_ = 0;
};

}  // namespace tessera

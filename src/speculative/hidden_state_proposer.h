// Drives a draft that reads the target's hidden states (methods "eagle3" and "dflash").
//
// The draft's cache has a row for every row of the target's, under the same block ids. Rows of decode steps
// that want no drafts may be observed later, many at once, which costs a fraction of observing each: up to
// `deferred_rows` of them are kept, with their hidden states. Whoever gives blocks away calls retire() first;
// whoever shares them (prefix cache) sees complete rows, because a prompt's chunk ends the waiting.
//
// A row holds its own hidden state and the token that follows it. So the last row of a shared prefix holds
// the first sequence's next token: one inexact row, which costs a little acceptance and never changes what
// the target says.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/draft.h"
#include "speculative/draft_cache.h"
#include "speculative/drafting.h"
#include "speculative/proposer.h"
#include "speculative/row_batch.h"

namespace tessera {

struct HiddenStateProposerOptions {
  std::int32_t max_seqs = 0;
  std::int32_t max_tokens = 0;      // rows of a step that stand
  std::int32_t max_model_len = 0;   // longest sequence, of the target
  std::int32_t most_drafts = 1;     // num_speculative_tokens
  std::int32_t deferred_rows = 32;  // 0: every step is observed at once
  bool draws_drafts = false;        // sample them from the draft's distribution, where a request samples
  DraftCacheOptions cache;
};

class HiddenStateProposer final : public Proposer {
 public:
  // For load_draft: the rows that passes of this proposer have.
  static StepLimits draft_limits(const ModelConfig& draft, const HiddenStateProposerOptions& options);

  HiddenStateProposer(Backend& backend, std::unique_ptr<DraftModel> draft,
                      const HiddenStateProposerOptions& options);

  std::int32_t most_drafts() const override { return options_.most_drafts; }
  std::int32_t lookahead(std::int32_t drafts) const override;
  std::span<const std::int32_t> token_ids() const override { return draft_->token_ids(); }
  std::int64_t exchanged_bytes() const override { return choice_.exchanged_bytes(); }
  void start(std::int32_t, std::span<const std::int32_t>, std::int32_t) override {}
  void retire(std::int32_t slot) override;
  void propose(std::span<const ProposerWork> work, const Tensor& aux, std::span<Proposal> proposals) override;

  const DraftModel& draft() const { return *draft_; }
  CacheMemory cache() const override { return cache_.memory; }
  std::int64_t passes() const { return passes_; }  // over the draft's layers, so far

 private:
  // Adds the work's rows to those to be observed; returns the last of them, or -1 where none is within the
  // draft's positions.
  std::int32_t collect(const ProposerWork& work, const Tensor& aux);
  void observe();  // all collected rows
  void draft_one_by_one(std::span<const ProposerWork> work, std::span<Proposal> proposals);
  void draft_block(std::span<const ProposerWork> work, std::span<Proposal> proposals);
  void advance(const std::int32_t* from);  // over steps_

  class Head final : public LogitSource {
   public:
    explicit Head(DraftModel& draft) : draft_(draft) {}
    void argmax(const std::int32_t* rows, std::int64_t count, std::int32_t* tokens) override {
      draft_.argmax(rows, count, tokens);
    }
    Tensor logits(const std::int32_t* rows, std::int64_t count) override {
      return draft_.logits(rows, count);
    }
    std::span<const std::int32_t> token_ids() const override { return draft_.token_ids(); }
    std::int64_t argmax_bytes() const override { return draft_.argmax_bytes(); }

   private:
    DraftModel& draft_;
  };

  Backend& backend_;
  std::unique_ptr<DraftModel> draft_;
  HiddenStateProposerOptions options_;
  Head head_;
  DraftCache cache_;
  RowBatch observed_;  // rows that wait or are about to be observed
  RowBatch steps_;     // rows of a drafting pass
  TokenChoice choice_;
  Buffer aux_storage_;                       // of aux_
  Tensor aux_;                               // [rows of observed_, aux width]
  std::vector<std::int32_t> waiting_slots_;  // that have rows in observed_ from earlier steps; may repeat
  std::vector<Drafting> drafting_;
  std::vector<std::int32_t> rows_;
  std::int64_t passes_ = 0;
};

}  // namespace tessera

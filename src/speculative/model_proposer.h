// Drives a smaller language model as the draft (method "draft_model"): any supported architecture over the
// same vocabulary. It reads tokens alone, so a row that it wrote for its own draft is right as soon as the
// target has confirmed that token, and rows that it missed can be made up at any time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"
#include "speculative/draft_cache.h"
#include "speculative/drafting.h"
#include "speculative/proposer.h"
#include "speculative/row_batch.h"

namespace tessera {

struct ModelProposerOptions {
  std::int32_t max_seqs = 0;
  std::int32_t max_tokens = 0;      // rows of a step that stand
  std::int32_t max_model_len = 0;   // longest sequence, of the target
  std::int32_t positions = 0;       // the draft's own limit; sequences past it are not drafted
  std::int32_t most_drafts = 1;     // num_speculative_tokens
  std::int32_t deferred_rows = 32;  // rows of steps without drafts that may wait; 0: none
  bool draws_drafts = false;        // sample them from the draft's distribution, where a request samples
  DraftCacheOptions cache;
};

class ModelProposer final : public Proposer {
 public:
  // For load_model: the rows that passes of this proposer have.
  static StepLimits model_limits(const ModelProposerOptions& options);

  ModelProposer(Backend& backend, std::unique_ptr<Model> model, const ModelProposerOptions& options);

  std::int32_t most_drafts() const override { return options_.most_drafts; }
  std::int32_t lookahead(std::int32_t drafts) const override { return drafts > 0 ? drafts : 0; }
  std::int64_t exchanged_bytes() const override { return choice_.exchanged_bytes(); }
  void start(std::int32_t slot, std::span<const std::int32_t> tokens, std::int32_t cached) override;
  void retire(std::int32_t slot) override;
  void propose(std::span<const ProposerWork> work, const Tensor& aux, std::span<Proposal> proposals) override;

  CacheMemory cache() const override { return cache_.memory; }
  std::int64_t passes() const { return passes_; }

 private:
  struct Sequence {
    std::vector<std::int32_t> tokens;  // by position: the known ones, then drafts that rows were made for
    std::int32_t known = 0;            // tokens that are certain
    std::int32_t reached = 0;          // the target has rows before this position
    std::int32_t rows = 0;             // rows of the cache that hold tokens[0 .. rows)
    std::vector<std::int32_t> block_table;
  };

  void learn(const ProposerWork& work, Sequence& sequence) const;
  // Adds rows [sequence.rows, end); returns the last of them, or -1 where there are none.
  std::int32_t add_rows(Sequence& sequence, std::int32_t end, bool is_decode);
  void forward();
  std::int32_t waiting(const Sequence& sequence) const { return sequence.reached - sequence.rows; }

  class Head final : public LogitSource {
   public:
    explicit Head(Model& model) : model_(model) {}
    void argmax(const std::int32_t* rows, std::int64_t count, std::int32_t* tokens) override {
      model_.argmax(hidden, rows, count, tokens);
    }
    Tensor logits(const std::int32_t* rows, std::int64_t count) override {
      return model_.logits(hidden, rows, count);
    }
    std::span<const std::int32_t> token_ids() const override { return {}; }
    std::int64_t argmax_bytes() const override;

    Tensor hidden;  // of the last pass

   private:
    Model& model_;
  };

  std::unique_ptr<Model> model_;
  ModelProposerOptions options_;
  Head head_;
  DraftCache cache_;
  RowBatch batch_;
  TokenChoice choice_;
  std::vector<Sequence> sequences_;  // [max_seqs]
  std::vector<Drafting> drafting_;
  std::int64_t passes_ = 0;
};

}  // namespace tessera

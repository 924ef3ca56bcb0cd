// Runs StepPlans on one rank: owns the model, the KV pool and the sampling state of the running sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/slot_state.h"
#include "engine/step_plan.h"
#include "model/model.h"

namespace tessera {

struct RunnerOptions {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  std::int32_t max_model_len = 0;
  std::int32_t block_size = 64;  // tokens
  std::int32_t kv_blocks = 0;
  KvFormat kv_format = KvFormat::kF32;
  float kv_scale = 1.0F;  // kFp8 only
  // Every query token in the absorbed form, so that a token's keys and logits are the same bits however its
  // prompt was cut, cached or recomputed. Costs prefill speed.
  bool batch_invariant = false;
};

class ModelRunner final : public StepRunner {
 public:
  // Rows of logits made at a time; prompt log-probabilities of a long chunk go through in groups of this
  // size.
  static constexpr std::int32_t kLogitRows = 256;

  static StepLimits limits_of(const RunnerOptions& options);
  // Bytes of the whole pool for `blocks` blocks of all layers, or an error when the format cannot hold the
  // model's rows.
  static Result<std::int64_t> kv_bytes(const Model& model, KvFormat format, std::int64_t tokens);

  // The model was loaded with limits_of(options). Borrows the back-end.
  static Result<std::unique_ptr<ModelRunner>> create(Backend& backend, std::unique_ptr<Model> model,
                                                     const RunnerOptions& options);

  StepResult& step(const StepPlan& plan) override;

  // Sees every row of logits before sampling changes it: (slot, position of its query token, [vocab]). For
  // tests and `verify`.
  using LogitsTap =
      std::function<void(std::int32_t slot, std::int32_t position, std::span<const float> logits)>;
  void set_logits_tap(LogitsTap tap) { tap_ = std::move(tap); }

  const Model& model() const { return *model_; }

 private:
  ModelRunner(Backend& backend, std::unique_ptr<Model> model, const RunnerOptions& options,
              std::int64_t row_bytes);

  struct LogitRow {
    std::int32_t token = 0;  // index into the step's query tokens
    std::int32_t work = 0;
    bool samples = false;  // else: a prompt log-probability
  };

  void upload(const StepPlan& plan);
  AttentionBatch attention_batch(const StepPlan& plan, std::int32_t first_work, std::int32_t works);
  void list_logit_rows(const StepPlan& plan);
  void read_logits(const StepPlan& plan, const Tensor& hidden, std::span<const LogitRow> rows);
  void tap_rows(const StepPlan& plan, std::span<const LogitRow> rows, const Tensor& logits);

  // Step inputs as one packed block: filled on the host, copied to the device at once.
  class Inputs {
   public:
    Inputs(Backend& backend, const RunnerOptions& options);
    // Where an array lies in both copies.
    template <class T>
    struct Field {
      T* host = nullptr;
      const T* device = nullptr;
    };
    Field<std::int32_t> ids, positions, visible_rows, query_start_decode, query_start_prefill, logit_rows;
    Field<std::int64_t> slots;
    // The block table stays on the device from step to step; a plan names the entries that changed.
    const std::int32_t* block_table() const { return static_cast<const std::int32_t*>(block_table_.get()); }
    void write_table(Backend& backend, const StepPlan& plan, const TableWrite& write);
    void copy(Backend& backend) { backend.copy_to_device(device_.get(), host_.data(), host_.size()); }

   private:
    std::vector<std::byte> host_;
    Buffer device_;
    Buffer block_table_;  // [max_num_seqs, max_blocks] i32
  };

  Backend& backend_;
  std::unique_ptr<Model> model_;
  RunnerOptions options_;
  Buffer pool_;
  std::vector<KvLayer> kv_;
  Inputs inputs_;
  std::vector<SlotState> slots_;  // [max_num_seqs]
  std::vector<LogitRow> logit_rows_;
  std::vector<SamplingRow> sampling_rows_;
  std::vector<SampledToken> sampled_;
  StepResult result_;
  std::vector<std::int32_t> targets_;
  LogitsTap tap_;
};

}  // namespace tessera

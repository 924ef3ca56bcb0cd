// Runs StepPlans on one rank: owns the model, the KV pool and the sampling state of the running sequences.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "comm/communicator.h"
#include "engine/slot_state.h"
#include "engine/staged_context.h"
#include "engine/step_plan.h"
#include "engine/step_recordings.h"
#include "engine/step_rows.h"
#include "engine/step_sampler.h"
#include "model/model.h"
#include "speculative/draft_trial.h"
#include "speculative/proposer.h"
#include "tensor/arena.h"

namespace tessera {

struct RunnerOptions {
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  std::int32_t max_model_len = 0;
  std::int32_t most_drafts = 0;  // of a sequence in a step; 0: no speculation
  std::int32_t block_size = 64;  // tokens
  std::int32_t kv_blocks = 0;    // on each rank
  std::int32_t dcp_ranks = 1;    // ranks that a sequence's blocks can be spread over
  std::int32_t dcp_rank = 0;     // this one's place among them: the view of the plan that it follows
  // Rows that a rank sends in a round at most when a group gathers the earlier rows of a prefill. Bounds
  // memory.
  std::int32_t gather_rows = 4096;
  KvFormat kv_format = KvFormat::kF32;
  float kv_scale = 1.0F;  // kFp8 only
  // Every query token in the absorbed form, so that a token's keys and logits are the same bits however its
  // prompt was cut, cached or recomputed. Costs prefill speed.
  bool batch_invariant = false;
  bool always_logits = false;  // also where a greedy step needs none: for set_logits_tap
  bool enforce_eager = false;  // decode steps are not recorded; the same bits, call by call
};

// What a rank owns besides its model: the device, and the group it shares the rows of the cache with.
struct RankDevice {
  std::unique_ptr<Backend> backend;
  // Of devices that cannot use the ranks' own group: the same ranks, over device memory. Else null.
  std::unique_ptr<Communicator> tp = nullptr;
  std::unique_ptr<Communicator> dcp = nullptr;  // null: every rank keeps all rows
};

// Parts of a step, in order.
enum class StepPhase : std::uint8_t {
  kVerify,  // inputs and the target's pass
  kSample,  // head, sampling, acceptance
  kDraft,   // the proposer
};
inline constexpr std::size_t kStepPhases = 3;

class ModelRunner final : public StepRunner {
 public:
  static StepLimits limits_of(const RunnerOptions& options);
  // Bytes of the whole pool for `blocks` blocks of all layers, or an error when the format cannot hold the
  // model's rows.
  static Result<std::int64_t> kv_bytes(const Model& model, KvFormat format, std::int64_t tokens);

  // The model was loaded on this device with limits_of(options).
  static Result<std::unique_ptr<ModelRunner>> create(RankDevice device, std::unique_ptr<Model> model,
                                                     const RunnerOptions& options);

  StepResult& step(const StepPlan& plan) override;
  void set_listener(Listener listener) override { listener_ = std::move(listener); }

  // Guesses what the sequences say next, from the next step on; on this device, of options.most_drafts.
  void set_proposer(std::unique_ptr<Proposer> proposer) { proposer_ = std::move(proposer); }
  // How well it understands the model, whose width is `hidden`: before the first step, on every rank alike.
  // Nothing where the pool or the context is too small to tell.
  std::optional<DraftTrialReport> try_draft(std::int64_t hidden, std::int32_t first_token);

  // For tests and `verify`.
  using LogitsTap = StepSampler::LogitsTap;
  void set_logits_tap(LogitsTap tap) { sampler_.set_tap(std::move(tap)); }

  // For benchmarks: hears that a part of the step is over. A device that runs behind shows its time in the
  // part that waits for it.
  using PhaseTap = std::function<void(StepPhase)>;
  void set_phase_tap(PhaseTap tap) { phase_tap_ = std::move(tap); }

  Model& model() { return *model_; }
  CacheMemory cache() const { return cache_; }
  Backend& backend() { return backend_; }

 private:
  ModelRunner(RankDevice device, std::unique_ptr<Model> model, const RunnerOptions& options,
              std::int64_t row_bytes);

  Tensor forward(const StepPlan& plan, const StepRows& rows);
  void upload(const StepPlan& plan, const StepRows& rows);
  enum Form : std::uint8_t { kDecode, kShardedDecode, kPrefill, kShardedPrefill };
  void list_forms(std::span<const SequenceWork> works);
  AttentionBatch attention_batch(const StepPlan& plan, Form form);
  const RankView& view(const StepPlan& plan) const {
    return plan.views[static_cast<std::size_t>(options_.dcp_rank)];
  }
  void propose(const StepPlan& plan, const StepRows& step);

  // Step inputs as one packed block: filled on the host, copied to the device at once. How they lie depends
  // on the number of tokens alone, so that a small step is a small copy and equal steps find them in one
  // place.
  class Inputs {
   public:
    Inputs(Backend& backend, const RunnerOptions& options);
    void fit(std::int64_t tokens);  // before anything of a step is filled in
    // Where an array lies in both copies.
    template <class T>
    struct Field {
      T* host = nullptr;
      const T* device = nullptr;
    };
    Field<std::int32_t> ids, positions, visible_rows, query_start;
    Field<std::int64_t> slots;
    // The block table stays on the device from step to step; a plan names the entries that changed.
    const std::int32_t* block_table() const { return static_cast<const std::int32_t*>(block_table_.get()); }
    void write_table(Backend& backend, const RankView& view, std::int32_t max_blocks,
                     const TableWrite& write);
    void copy(Backend& backend) { backend.copy_to_device(device_.get(), host_.data(), used_); }

   private:
    static constexpr std::int64_t kLeastRoom = 64;
    std::size_t lay_out(Arena& host, Arena& device, std::int64_t tokens);  // bytes

    std::int64_t most_tokens_;
    std::int64_t most_seqs_;
    std::size_t used_ = 0;  // of host_, by the step under way
    std::vector<std::byte> host_;
    Buffer device_;
    Buffer block_table_;  // [table_rows, max_blocks] i32
  };

  RankDevice device_;
  Backend& backend_;  // of device_
  std::unique_ptr<Model> model_;
  RunnerOptions options_;
  Buffer pool_;
  CacheMemory cache_;  // of pool_
  std::vector<KvLayer> kv_;
  Inputs inputs_;
  StepRecordings recordings_;
  std::optional<StagedContext> staged_;  // with several DCP ranks
  RowResolver resolver_;
  std::array<std::span<const SequenceWork>, 4> forms_;  // the works of the step under way, by Form
  std::vector<SlotState> slots_;                        // [max_num_seqs]
  StepSampler sampler_;
  std::unique_ptr<Proposer> proposer_;  // null: no speculation
  std::vector<ProposerWork> proposer_work_;
  std::vector<Proposal> proposals_;  // [max_num_seqs]
  PhaseTap phase_tap_;               // may be empty
  Listener listener_;
  std::array<StepResult, 2> results_;  // of this step and the one before, which the listener may still read
  std::size_t current_ = 0;            // of results_
};

}  // namespace tessera

// Multi-head latent attention of one layer, on one rank's heads: absorbed form for decodes, expanded form for
// prefills; and both over rows that are spread over the ranks of a group
// (docs/explanation/context-parallelism.md).
#pragma once

#include <string>

#include "model/attention_frame.h"
#include "model/context_exchange.h"
#include "model/layers.h"
#include "model/model.h"
#include "model/shard.h"

namespace tessera {

// Shared by a model's layers. [tokens, ...] up to the planned numbers.
struct MlaScratch {
  Tensor q_kv_a;      // [tokens, q_lora + latent + rope]; without q_lora: [tokens, heads * q + latent + rope]
  Tensor q_normed;    // [tokens, q_lora]
  Tensor q;           // [tokens, heads * (nope + rope)]
  Tensor q_absorbed;  // [decode tokens, heads * (latent + rope)]
  Tensor o_latent;    // [decode tokens, heads * latent]
  Tensor attended;    // [tokens, heads * v]
  // With ranks that share rows: results over earlier rows, [tokens, heads * v] and [tokens, heads] f32, the
  // latter also of a chunk's own rows; and the exchange of decodes.
  Tensor earlier, earlier_lse, lse;
  ContextExchange exchange;

  void plan(Arena& arena, const ModelConfig& config, const Shard& shard, DType dtype,
            const StepLimits& limits);
};

class MlaAttention {
 public:
  MlaAttention(WeightReader& reader, Backend& backend, const ModelConfig& config, const Shard& shard,
               const std::string& prefix);

  // Latents and rotated keys of x into their slots, then what this rank adds to the stream: out [tokens,
  // hidden], before the sum over ranks.
  void attend(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& x,
              const ForwardBatch& batch, const KvLayer& kv, const Tensor& out) const;

  static KvRowShape kv_shape(const ModelConfig& config);
  // Query heads that a rank attends with at most, after gathering those of its group.
  static std::int64_t most_heads(const ModelConfig& config, const Shard& shard) {
    return shard.even(config.heads).count * shard.dcp_ranks();
  }
  // The widest activation.
  static std::int64_t width(const ModelConfig& config, const Shard& shard);

 private:
  Tensor absorb(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& q) const;
  void attend_absorbed(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& q,
                       const AttentionBatch& batch, const KvLayer& kv, const Tensor& out) const;
  void attend_absorbed_sharded(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& q,
                               const AttentionBatch& batch, const KvLayer& kv, const Tensor& out) const;
  void prefill_sharded(const AttentionFrame& frame, const MlaScratch& scratch, const Tensor& q,
                       const StagedPrefill& staged, const KvLayer& kv, const Tensor& out) const;
  WeightStack read_absorbed(WeightReader& reader, const Backend& backend, const ModelConfig& config,
                            const HostMatrix& kv_b) const;

  std::int64_t heads_ = 0;  // on this rank; q below = nope + rope
  std::int64_t most_heads_ = 0;
  Communicator* dcp_ = nullptr;
  Projection q_kv_a_;       // [q_lora + latent + rope, in]; without q_lora: [heads * q + latent + rope, in]
  VectorWeight q_a_norm_;   // [q_lora]; empty without q_lora
  VectorWeight kv_a_norm_;  // [latent]
  Weight q_b_;              // [heads * q, q_lora]; empty without q_lora
  WeightStack k_up_;        // [heads, nope, latent]: W_UK, for the expanded form
  WeightStack k_up_absorbed_;  // [heads, latent, nope]: its transpose, for the absorbed form
  WeightStack v_up_;           // [heads, v, latent]: W_UV
  Weight o_;                   // [hidden, heads * v]
};

}  // namespace tessera

// Grouped-query attention of one layer, with norms of q and k where the model has them (Qwen3), on one rank's
// heads.
#pragma once

#include <string>

#include "model/attention_frame.h"
#include "model/layers.h"
#include "model/model.h"
#include "model/shard.h"

namespace tessera {

// Shared by a model's layers. [tokens, ...] up to the planned number.
struct GqaScratch {
  Tensor q, kv;     // [tokens, heads * head_dim], [tokens, 2 * kv_heads * head_dim]
  Tensor k;         // [tokens, kv_heads * head_dim]: dense, for its norm
  Tensor attended;  // [tokens, heads * head_dim]

  void plan(Arena& arena, const ModelConfig& config, const Shard& shard, DType dtype, std::int64_t tokens);
};

class GqaAttention {
 public:
  GqaAttention(WeightReader& reader, const ModelConfig& config, const Shard& shard,
               const std::string& prefix);

  // Keys and values of x into their slots, then what this rank adds to the stream: out [tokens, hidden],
  // before the sum over ranks.
  void attend(const AttentionFrame& frame, const GqaScratch& scratch, const Tensor& x,
              const ForwardBatch& batch, const KvLayer& kv, const Tensor& out) const;
  // Keys and values alone.
  void store(const AttentionFrame& frame, const GqaScratch& scratch, const Tensor& x,
             const ForwardBatch& batch, const KvLayer& kv) const;

  static KvRowShape kv_shape(const ModelConfig& config, const Shard& shard);
  // Of the back-end's scratch, and of the widest activation.
  static std::int64_t width(const ModelConfig& config, const Shard& shard);

 private:
  void store_part(const AttentionFrame& frame, const GqaScratch& scratch, const AttentionBatch& part,
                  std::int64_t first, const KvLayer& kv) const;
  void project_keys(const AttentionFrame& frame, const GqaScratch& scratch, const Tensor& x) const;

  std::int64_t heads_ = 0;        // on this rank
  std::int64_t kv_heads_ = 0;     // likewise
  Projection q_, kv_;             // [heads * head_dim, in], [2 * kv_heads * head_dim, in]
  VectorWeight q_norm_, k_norm_;  // [head_dim]; empty without qk_norm
  Weight o_;                      // [hidden, heads * head_dim]
};

}  // namespace tessera

#include "model/gqa_attention.h"

#include <algorithm>

namespace tessera {

void GqaScratch::plan(Arena& arena, const ModelConfig& config, const Shard& shard, DType dtype,
                      std::int64_t tokens) {
  const std::int64_t q_width = shard.even(config.heads).count * config.head_dim;
  const std::int64_t kv_width = shard.even(config.kv_heads).count * config.head_dim;
  q = arena.take(dtype, tokens, q_width);
  kv = arena.take(dtype, tokens, 2 * kv_width);
  k = arena.take(dtype, tokens, kv_width);
  attended = arena.take(dtype, tokens, q_width);
}

GqaAttention::GqaAttention(WeightReader& reader, const ModelConfig& config, const Shard& shard,
                           const std::string& prefix)
    : heads_(shard.even(config.heads).count), kv_heads_(shard.even(config.kv_heads).count) {
  const std::int64_t dim = config.head_dim;
  const Share q{shard.even(config.heads).first * dim, heads_ * dim};
  const Share kv{shard.even(config.kv_heads).first * dim, kv_heads_ * dim};
  q_ = reader.projection({reader.host(prefix + "q_proj").row_range(q.first, q.count)});
  kv_ = reader.projection({reader.host(prefix + "k_proj").row_range(kv.first, kv.count),
                           reader.host(prefix + "v_proj").row_range(kv.first, kv.count)});
  if (config.qk_norm) {
    q_norm_ = reader.vector(prefix + "q_norm");
    k_norm_ = reader.vector(prefix + "k_norm");
  }
  o_ = reader.weight(reader.host(prefix + "o_proj").col_range(q.first, q.count));
}

KvRowShape GqaAttention::kv_shape(const ModelConfig& config, const Shard& shard) {
  return KvRowShape::gqa(static_cast<std::int32_t>(shard.even(config.kv_heads).count),
                         static_cast<std::int32_t>(config.head_dim));
}

std::int64_t GqaAttention::width(const ModelConfig& config, const Shard& shard) {
  return std::max(shard.even(config.heads).count, 2 * shard.even(config.kv_heads).count) * config.head_dim;
}

// scratch.kv = [keys | values] of x; scratch.k = the keys, normed.
void GqaAttention::project_keys(const AttentionFrame& frame, const GqaScratch& scratch,
                                const Tensor& x) const {
  const std::int64_t dim = frame.config.head_dim;
  const Tensor kv = scratch.kv.row_range(0, x.rows);
  const Tensor k = scratch.k.row_range(0, x.rows);
  kv_.apply(frame.backend, x, kv);
  frame.backend.copy(kv.col_range(0, k.cols), k);
  if (frame.config.qk_norm) {
    frame.backend.rms_norm(k.reshaped(dim), k_norm_, frame.config.rms_eps, k.reshaped(dim));
  }
}

void GqaAttention::store_part(const AttentionFrame& frame, const GqaScratch& scratch,
                              const AttentionBatch& part, std::int64_t first, const KvLayer& kv) const {
  const Tensor k = scratch.k.row_range(first, part.tokens);
  const Tensor v = scratch.kv.row_range(first, part.tokens).col_range(k.cols, k.cols);
  frame.backend.rope(k, kv_heads_, frame.config.head_dim, part.positions, frame.rope, RopePairs::kHalves);
  frame.backend.write_kv_gqa(k, v, part, kv);
}

void GqaAttention::store(const AttentionFrame& frame, const GqaScratch& scratch, const Tensor& x,
                         const ForwardBatch& batch, const KvLayer& kv) const {
  project_keys(frame, scratch, x);
  std::int64_t first = 0;
  for (const AttentionBatch* part : {&batch.decode, &batch.prefill}) {
    if (part->tokens > 0) store_part(frame, scratch, *part, first, kv);
    first += part->tokens;
  }
}

void GqaAttention::attend(const AttentionFrame& frame, const GqaScratch& scratch, const Tensor& x,
                          const ForwardBatch& batch, const KvLayer& kv, const Tensor& out) const {
  const std::int64_t dim = frame.config.head_dim;
  const Tensor q = scratch.q.row_range(0, x.rows);
  const Tensor attended = scratch.attended.row_range(0, x.rows);
  q_.apply(frame.backend, x, q);
  if (frame.config.qk_norm) {
    frame.backend.rms_norm(q.reshaped(dim), q_norm_, frame.config.rms_eps, q.reshaped(dim));
  }
  project_keys(frame, scratch, x);
  std::int64_t first = 0;
  for (const AttentionBatch* part : {&batch.decode, &batch.prefill}) {
    if (part->tokens == 0) continue;
    const Tensor q_part = q.row_range(first, part->tokens);
    frame.backend.rope(q_part, heads_, dim, part->positions, frame.rope, RopePairs::kHalves);
    store_part(frame, scratch, *part, first, kv);
    frame.backend.gqa_attention(q_part, heads_, frame.softmax_scale, *part, kv,
                                attended.row_range(first, part->tokens), Tensor{});
    first += part->tokens;
  }
  frame.backend.linear(attended, o_, out);
}

}  // namespace tessera

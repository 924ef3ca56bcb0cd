#include "model/decoder.h"

#include <string>
#include <utility>

#include "model/rope.h"

namespace tessera {

Decoder::Decoder(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
    : backend_(backend), config_(checkpoint.config()), shard_(options.shard) {}

void Decoder::read_embedding_and_norms(WeightReader& reader, const LoadOptions& options) {
  vocabulary_.read(reader, config_, shard_);
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    norms_.push_back({.input = reader.vector(layer_prefix(l) + "input_layernorm"),
                      .post_attention = reader.vector(layer_prefix(l) + "post_attention_layernorm")});
  }
  final_norm_ = reader.vector("model.norm");
  rope_table_ =
      backend_.prepare_rope(options.limits.positions, rope_frequencies(config_), rope_multiplier(config_));
  softmax_scale_ = softmax_scale(config_);
}

void Decoder::plan_frame(Arena& arena, const StepLimits& limits) {
  const DType dtype = backend_.activation_dtype();
  residual_ = arena.take(dtype, limits.tokens, config_.hidden);
  normed_ = arena.take(dtype, limits.tokens, config_.hidden);
  delta_ = arena.take(dtype, limits.tokens, config_.hidden);
  vocabulary_.plan(arena, config_, shard_, dtype, limits.logit_rows);
}

// Each sum is fused with the norm that follows it.
Tensor Decoder::forward(const ForwardBatch& batch, std::span<const KvLayer> kv) {
  const Tensor residual = residual_.row_range(0, batch.tokens);
  const Tensor normed = normed_.row_range(0, batch.tokens);
  const Tensor delta = delta_.row_range(0, batch.tokens);

  vocabulary_.embed(backend_, shard_, batch.ids, residual);
  backend_.rms_norm(residual, norms_.front().input, config_.rms_eps, normed);
  for (std::size_t l = 0; l < norms_.size(); ++l) {
    attend(l, normed, batch, kv[l], delta);
    shard_.reduce(delta);
    backend_.add_rms_norm(residual, delta, norms_[l].post_attention, config_.rms_eps, normed);
    run_mlp(l, normed, delta);
    shard_.reduce(delta);
    const VectorWeight& next = l + 1 < norms_.size() ? norms_[l + 1].input : final_norm_;
    backend_.add_rms_norm(residual, delta, next, config_.rms_eps, normed);
  }
  return normed;
}

Tensor Decoder::logits(const Tensor& hidden, const std::int32_t* rows, std::int64_t count) {
  return vocabulary_.logits(backend_, shard_, hidden, rows, count);
}

}  // namespace tessera

#include "model/decoder.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "model/rope.h"

namespace tessera {

Decoder::Decoder(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
    : backend_(backend),
      config_(checkpoint.config()),
      shard_(options.shard),
      aux_layers_(options.aux_layers) {
  for (const std::int64_t layer : aux_layers_) {
    TS_CHECK(layer >= -1 && layer < config_.layers, layer, config_.layers);
  }
}

void Decoder::read_embedding_and_norms(WeightReader& reader, const LoadOptions& options) {
  vocabulary_.read(reader, config_, shard_, options.limits.logit_rows);
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
  aux_states_ =
      arena.take(dtype, limits.tokens, static_cast<std::int64_t>(aux_layers_.size()) * config_.hidden);
  vocabulary_.plan(arena, dtype);
}

// Each sum is fused with the norm that follows it.
Tensor Decoder::forward(const ForwardBatch& batch, std::span<const KvLayer> kv) {
  const Tensor residual = residual_.row_range(0, batch.tokens);
  const Tensor normed = normed_.row_range(0, batch.tokens);
  const Tensor delta = delta_.row_range(0, batch.tokens);

  last_tokens_ = batch.tokens;
  vocabulary_.embed(backend_, shard_, batch.ids, residual);
  keep_aux(-1, residual);
  backend_.rms_norm(residual, norms_.front().input, config_.rms_eps, normed);
  for (std::size_t l = 0; l < norms_.size(); ++l) {
    attend(l, normed, batch, kv[l], delta);
    shard_.reduce(delta);
    backend_.add_rms_norm(residual, delta, norms_[l].post_attention, config_.rms_eps, normed);
    run_mlp(l, normed, delta);
    shard_.reduce(delta);
    const VectorWeight& next = l + 1 < norms_.size() ? norms_[l + 1].input : final_norm_;
    backend_.add_rms_norm(residual, delta, next, config_.rms_eps, normed);
    keep_aux(static_cast<std::int64_t>(l), residual);
  }
  return normed;
}

void Decoder::keep_aux(std::int64_t layer, const Tensor& residual) const {
  for (std::size_t i = 0; i < aux_layers_.size(); ++i) {
    if (aux_layers_[i] != layer) continue;
    backend_.copy(residual, aux_states_.row_range(0, residual.rows)
                                .col_range(static_cast<std::int64_t>(i) * config_.hidden, config_.hidden));
  }
}

Tensor Decoder::logits(const Tensor& hidden, const std::int32_t* rows, std::int64_t count) {
  return vocabulary_.head().logits(backend_, hidden, rows, count);
}

void Decoder::argmax(const Tensor& hidden, const std::int32_t* rows, std::int64_t count,
                     std::int32_t* tokens) {
  vocabulary_.head().argmax(backend_, hidden, rows, count, nullptr, tokens);
}

void Decoder::embed(const std::int32_t* ids, const Tensor& out) {
  vocabulary_.embed(backend_, shard_, ids, out);
}

}  // namespace tessera

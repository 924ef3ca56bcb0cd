#include "model/dense.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/layers.h"
#include "model/rope.h"

namespace tessera {
namespace {

struct DenseLayer {
  VectorWeight input_norm;
  Projection qkv;               // [(heads + 2 * kv_heads) * head_dim, hidden]
  VectorWeight q_norm, k_norm;  // [head_dim]; empty without qk_norm
  Weight o;                     // [hidden, heads * head_dim]
  VectorWeight post_attention_norm;
  GatedMlp mlp;
};

// Activations of one step, [tokens, ...] up to the step's limits.
struct Scratch {
  Tensor residual, normed, delta;  // [tokens, hidden]
  Tensor qkv;                      // [tokens, (heads + 2 * kv_heads) * head_dim]
  Tensor q, k;                     // [tokens, heads * head_dim], [tokens, kv_heads * head_dim]
  Tensor attended;                 // [tokens, heads * head_dim]
  Tensor gate_up, activated;       // [tokens, 2 * width], [tokens, width]
};

class Dense final : public Model {
 public:
  Dense(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : backend_(backend),
        config_(checkpoint.config()),
        shard_(options.shard),
        heads_(shard_.even(config_.heads)),
        kv_heads_(shard_.even(config_.kv_heads)),
        width_(shard_.even(config_.dense_width)) {
    read_weights(checkpoint, options);
    scratch_storage_ =
        fill_arena(backend_, scratch_bytes_, [&](Arena& arena) { plan_scratch(arena, options.limits); });
    scratch_bytes_ += backend_.reserve({.tokens = options.limits.tokens,
                                        .seqs = options.limits.seqs,
                                        .heads = heads_.count,
                                        .head_dim = config_.head_dim,
                                        .kv_tokens = options.limits.positions,
                                        .vocab = config_.vocab,
                                        .width = std::max({config_.hidden, 2 * width_.count, qkv_width()}),
                                        .top_k = 0,
                                        .gate_up = 0});
  }

  std::int64_t layers() const override { return config_.layers; }
  KvRowShape kv_shape() const override {
    return KvRowShape::gqa(static_cast<std::int32_t>(kv_heads_.count),
                           static_cast<std::int32_t>(config_.head_dim));
  }
  std::int64_t vocab() const override { return config_.vocab; }
  std::size_t weight_bytes() const override { return weight_bytes_; }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }

  Tensor forward(const ForwardBatch& batch, std::span<const KvLayer> kv) override {
    const std::int64_t n = batch.tokens;
    const Tensor residual = scratch_.residual.row_range(0, n);
    const Tensor normed = scratch_.normed.row_range(0, n);
    const Tensor delta = scratch_.delta.row_range(0, n);
    const Tensor gate_up = scratch_.gate_up.row_range(0, n);
    const Tensor activated = scratch_.activated.row_range(0, n);

    vocabulary_.embed(backend_, shard_, batch.ids, residual);
    backend_.rms_norm(residual, layers_.front().input_norm, config_.rms_eps, normed);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const DenseLayer& layer = layers_[l];
      attend(layer, normed, batch, kv[l], delta);
      backend_.add_rms_norm(residual, delta, layer.post_attention_norm, config_.rms_eps, normed);
      layer.mlp.apply(backend_, normed, gate_up, activated, delta);
      shard_.reduce(delta);
      const VectorWeight& next = l + 1 < layers_.size() ? layers_[l + 1].input_norm : final_norm_;
      backend_.add_rms_norm(residual, delta, next, config_.rms_eps, normed);
    }
    return normed;
  }

  Tensor logits(const Tensor& hidden, const std::int32_t* rows, std::int64_t count) override {
    return vocabulary_.logits(backend_, shard_, hidden, rows, count);
  }

 private:
  std::int64_t q_width() const { return heads_.count * config_.head_dim; }
  std::int64_t kv_width() const { return kv_heads_.count * config_.head_dim; }
  std::int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  void attend(const DenseLayer& layer, const Tensor& x, const ForwardBatch& batch, const KvLayer& kv,
              const Tensor& out) {
    const std::int64_t n = x.rows;
    const Tensor qkv = scratch_.qkv.row_range(0, n);
    const Tensor q = scratch_.q.row_range(0, n);
    const Tensor k = scratch_.k.row_range(0, n);
    layer.qkv.apply(backend_, x, qkv);
    backend_.copy(qkv.col_range(0, q_width()), q);
    backend_.copy(qkv.col_range(q_width(), kv_width()), k);
    const Tensor v = qkv.col_range(q_width() + kv_width(), kv_width());
    if (config_.qk_norm) {
      backend_.rms_norm(q.reshaped(config_.head_dim), layer.q_norm, config_.rms_eps,
                        q.reshaped(config_.head_dim));
      backend_.rms_norm(k.reshaped(config_.head_dim), layer.k_norm, config_.rms_eps,
                        k.reshaped(config_.head_dim));
    }
    const Tensor attended = scratch_.attended.row_range(0, n);
    std::int64_t first = 0;
    for (const AttentionBatch* part : {&batch.decode, &batch.prefill}) {
      const auto count = std::int64_t{part->tokens};
      if (count == 0) continue;
      const Tensor q_part = q.row_range(first, count);
      const Tensor k_part = k.row_range(first, count);
      backend_.rope(q_part, heads_.count, config_.head_dim, part->positions, rope_table_, RopePairs::kHalves);
      backend_.rope(k_part, kv_heads_.count, config_.head_dim, part->positions, rope_table_,
                    RopePairs::kHalves);
      backend_.write_kv_gqa(k_part, v.row_range(first, count), *part, kv);
      backend_.gqa_attention(q_part, heads_.count, softmax_scale_, *part, kv,
                             attended.row_range(first, count), Tensor{});
      first += count;
    }
    backend_.linear(attended, layer.o, out);
    shard_.reduce(out);
  }

  void read_weights(const Checkpoint& checkpoint, const LoadOptions& options) {
    WeightReader reader(checkpoint, backend_, options);
    vocabulary_.read(reader, config_, shard_);
    const std::int64_t dim = config_.head_dim;
    for (std::int64_t l = 0; l < config_.layers; ++l) {
      const std::string prefix = "model.layers." + std::to_string(l) + ".";
      const std::string attention = prefix + "self_attn.";
      DenseLayer layer;
      layer.input_norm = reader.vector(prefix + "input_layernorm");
      layer.qkv = reader.projection(
          {reader.host(attention + "q_proj").row_range(heads_.first * dim, heads_.count * dim),
           reader.host(attention + "k_proj").row_range(kv_heads_.first * dim, kv_heads_.count * dim),
           reader.host(attention + "v_proj").row_range(kv_heads_.first * dim, kv_heads_.count * dim)});
      if (config_.qk_norm) {
        layer.q_norm = reader.vector(attention + "q_norm");
        layer.k_norm = reader.vector(attention + "k_norm");
      }
      layer.o =
          reader.weight(reader.host(attention + "o_proj").col_range(heads_.first * dim, heads_.count * dim));
      layer.post_attention_norm = reader.vector(prefix + "post_attention_layernorm");
      layer.mlp = reader.gated_mlp(prefix + "mlp.", width_);
      layers_.push_back(std::move(layer));
    }
    final_norm_ = reader.vector("model.norm");
    rope_table_ =
        backend_.prepare_rope(options.limits.positions, rope_frequencies(config_), rope_multiplier(config_));
    softmax_scale_ = softmax_scale(config_);
    weight_bytes_ = reader.device_bytes();
  }

  void plan_scratch(Arena& arena, const StepLimits& limits) {
    const DType dtype = backend_.activation_dtype();
    const std::int64_t n = limits.tokens;
    scratch_.residual = arena.take(dtype, n, config_.hidden);
    scratch_.normed = arena.take(dtype, n, config_.hidden);
    scratch_.delta = arena.take(dtype, n, config_.hidden);
    scratch_.qkv = arena.take(dtype, n, qkv_width());
    scratch_.q = arena.take(dtype, n, q_width());
    scratch_.k = arena.take(dtype, n, kv_width());
    scratch_.attended = arena.take(dtype, n, q_width());
    scratch_.gate_up = arena.take(dtype, n, 2 * width_.count);
    scratch_.activated = arena.take(dtype, n, width_.count);
    vocabulary_.plan(arena, config_, shard_, dtype, limits.logit_rows);
  }

  Backend& backend_;
  ModelConfig config_;
  Shard shard_;
  Share heads_, kv_heads_, width_;  // on this rank
  VocabularyShards vocabulary_;
  std::vector<DenseLayer> layers_;
  VectorWeight final_norm_;
  RopeTable rope_table_;
  float softmax_scale_ = 1;
  std::size_t weight_bytes_ = 0;
  Buffer scratch_storage_;
  std::size_t scratch_bytes_ = 0;
  Scratch scratch_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_dense(const Checkpoint& checkpoint, Backend& backend,
                                          const LoadOptions& options) {
  return std::unique_ptr<Model>(std::make_unique<Dense>(checkpoint, backend, options));
}

}  // namespace tessera

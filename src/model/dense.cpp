#include "model/dense.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/decoder.h"

namespace tessera {
namespace {

struct DenseLayer {
  Projection qkv;               // [(heads + 2 * kv_heads) * head_dim, hidden]
  VectorWeight q_norm, k_norm;  // [head_dim]; empty without qk_norm
  Weight o;                     // [hidden, heads * head_dim]
  GatedMlp mlp;
};

// Activations of one step, [tokens, ...] up to the step's limits.
struct Scratch {
  Tensor qkv;                 // [tokens, (heads + 2 * kv_heads) * head_dim]
  Tensor q, k;                // [tokens, heads * head_dim], [tokens, kv_heads * head_dim]
  Tensor attended;            // [tokens, heads * head_dim]
  Tensor gate_up, activated;  // [tokens, 2 * width], [tokens, width]
};

class Dense final : public Decoder {
 public:
  Dense(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : Decoder(checkpoint, backend, options),
        heads_(shard_.even(config_.heads)),
        kv_heads_(shard_.even(config_.kv_heads)),
        width_(shard_.even(config_.dense_width)) {
    WeightReader reader(checkpoint, backend_, options);
    read_embedding_and_norms(reader, options);
    for (std::int64_t l = 0; l < config_.layers; ++l) layers_.push_back(read_layer(reader, layer_prefix(l)));
    weight_bytes_ = reader.device_bytes();
    take_scratch(options,
                 {.tokens = options.limits.tokens,
                  .seqs = options.limits.seqs,
                  .heads = heads_.count,
                  .head_dim = config_.head_dim,
                  .kv_tokens = options.limits.positions,
                  .vocab = config_.vocab,
                  .width = std::max({config_.hidden, 2 * width_.count, qkv_width()}),
                  .top_k = 0,
                  .gate_up = 0,
                  .hidden = config_.hidden,
                  .key_dim = 0,
                  .value_dim = 0},
                 [&](Arena& arena) { plan_scratch(arena, options.limits); });
  }

  KvRowShape kv_shape() const override {
    return KvRowShape::gqa(static_cast<std::int32_t>(kv_heads_.count),
                           static_cast<std::int32_t>(config_.head_dim));
  }

 private:
  void run_mlp(std::size_t layer, const Tensor& x, const Tensor& out) override {
    layers_[layer].mlp.apply(backend_, x, scratch_.gate_up.row_range(0, x.rows),
                             scratch_.activated.row_range(0, x.rows), out);
  }

  std::int64_t q_width() const { return heads_.count * config_.head_dim; }
  std::int64_t kv_width() const { return kv_heads_.count * config_.head_dim; }
  std::int64_t qkv_width() const { return q_width() + 2 * kv_width(); }

  void attend(std::size_t index, const Tensor& x, const ForwardBatch& batch, const KvLayer& kv,
              const Tensor& out) override {
    const DenseLayer& layer = layers_[index];
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
  }

  DenseLayer read_layer(WeightReader& reader, const std::string& prefix) {
    const std::string attention = prefix + "self_attn.";
    const std::int64_t dim = config_.head_dim;
    const Share q{heads_.first * dim, heads_.count * dim};
    const Share kv{kv_heads_.first * dim, kv_heads_.count * dim};
    DenseLayer layer;
    layer.qkv = reader.projection({reader.host(attention + "q_proj").row_range(q.first, q.count),
                                   reader.host(attention + "k_proj").row_range(kv.first, kv.count),
                                   reader.host(attention + "v_proj").row_range(kv.first, kv.count)});
    if (config_.qk_norm) {
      layer.q_norm = reader.vector(attention + "q_norm");
      layer.k_norm = reader.vector(attention + "k_norm");
    }
    layer.o = reader.weight(reader.host(attention + "o_proj").col_range(q.first, q.count));
    layer.mlp = reader.gated_mlp(prefix + "mlp.", width_);
    return layer;
  }

  void plan_scratch(Arena& arena, const StepLimits& limits) {
    const DType dtype = backend_.activation_dtype();
    const std::int64_t n = limits.tokens;
    scratch_.qkv = arena.take(dtype, n, qkv_width());
    scratch_.q = arena.take(dtype, n, q_width());
    scratch_.k = arena.take(dtype, n, kv_width());
    scratch_.attended = arena.take(dtype, n, q_width());
    scratch_.gate_up = arena.take(dtype, n, 2 * width_.count);
    scratch_.activated = arena.take(dtype, n, width_.count);
  }

  const Share heads_, kv_heads_, width_;  // on this rank
  std::vector<DenseLayer> layers_;
  Scratch scratch_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_dense(const Checkpoint& checkpoint, Backend& backend,
                                          const LoadOptions& options) {
  return std::unique_ptr<Model>(std::make_unique<Dense>(checkpoint, backend, options));
}

}  // namespace tessera

#include "model/dense.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/gqa_attention.h"

namespace tessera {
namespace {

struct DenseLayer {
  GqaAttention attention;
  GatedMlp mlp;
};

// Activations of one step, [tokens, ...] up to the step's limits.
struct Scratch {
  GqaScratch attention;
  Tensor gate_up, activated;  // [tokens, 2 * width], [tokens, width]
};

class Dense final : public Decoder {
 public:
  Dense(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : Decoder(checkpoint, backend, options), width_(shard_.even(config_.dense_width)) {
    WeightReader reader(checkpoint, backend_, options);
    read_embedding_and_norms(reader, options);
    for (std::int64_t l = 0; l < config_.layers; ++l) layers_.push_back(read_layer(reader, layer_prefix(l)));
    weight_bytes_ = reader.device_bytes();
    take_scratch(options,
                 {.tokens = options.limits.tokens,
                  .seqs = options.limits.seqs,
                  .heads = shard_.even(config_.heads).count,
                  .head_dim = config_.head_dim,
                  .kv_tokens = options.limits.positions,
                  .vocab = config_.vocab,
                  .width = std::max({config_.hidden, 2 * width_.count, GqaAttention::width(config_, shard_)}),
                  .top_k = 0,
                  .gate_up = 0,
                  .hidden = config_.hidden,
                  .key_dim = 0,
                  .value_dim = 0},
                 [&](Arena& arena) { plan_scratch(arena, options.limits); });
  }

  KvRowShape kv_shape() const override { return GqaAttention::kv_shape(config_, shard_); }

 private:
  void run_mlp(std::size_t layer, const Tensor& x, const Tensor& out) override {
    layers_[layer].mlp.apply(backend_, x, scratch_.gate_up.row_range(0, x.rows),
                             scratch_.activated.row_range(0, x.rows), out);
  }

  void attend(std::size_t layer, const Tensor& x, const ForwardBatch& batch, const KvLayer& kv,
              const Tensor& out) override {
    layers_[layer].attention.attend({backend_, config_, rope_table_, softmax_scale_}, scratch_.attention, x,
                                    batch, kv, out);
  }

  DenseLayer read_layer(WeightReader& reader, const std::string& prefix) {
    return {.attention = GqaAttention(reader, config_, shard_, prefix + "self_attn."),
            .mlp = reader.gated_mlp(prefix + "mlp.", width_)};
  }

  void plan_scratch(Arena& arena, const StepLimits& limits) {
    const DType dtype = backend_.activation_dtype();
    const std::int64_t n = limits.tokens;
    scratch_.attention.plan(arena, config_, shard_, dtype, n);
    scratch_.gate_up = arena.take(dtype, n, 2 * width_.count);
    scratch_.activated = arena.take(dtype, n, width_.count);
  }

  const Share width_;  // of the MLP on this rank
  std::vector<DenseLayer> layers_;
  Scratch scratch_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_dense(const Checkpoint& checkpoint, Backend& backend,
                                          const LoadOptions& options) {
  return std::unique_ptr<Model>(std::make_unique<Dense>(checkpoint, backend, options));
}

}  // namespace tessera

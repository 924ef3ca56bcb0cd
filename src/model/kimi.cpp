#include "model/kimi.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/decoder.h"
#include "model/mla_attention.h"

namespace tessera {
namespace {

struct MoeWeights {
  Weight router;                  // [experts, hidden]
  VectorWeight bias;              // [experts], for choice only
  std::int64_t first_expert = 0;  // of those on this rank
  WeightStack gate_up;            // [experts, 2 * width, hidden]
  WeightStack down;               // [experts, hidden, width]
  GatedMlp shared;
};

struct KimiLayer {
  MlaAttention attention;
  bool is_moe = false;
  GatedMlp dense;
  MoeWeights moe;
};

// Activations of one step; every row count is the step's token limit unless said otherwise.
struct Scratch {
  MlaScratch attention;
  Tensor gate_up, activated;          // [tokens, 2 * width], [tokens, width]: of the widest MLP
  Tensor router_logits;               // [tokens, experts] f32
  Tensor expert_ids, expert_weights;  // [tokens, top_k] i32, f32
  Tensor shared_out;                  // [tokens, hidden]
};

class Kimi final : public Decoder {
 public:
  Kimi(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : Decoder(checkpoint, backend, options),
        routing_rule_{.top_k = static_cast<std::int32_t>(config_.moe.top_k),
                      .groups = static_cast<std::int32_t>(config_.moe.groups),
                      .top_groups = static_cast<std::int32_t>(config_.moe.top_groups),
                      .normalise = config_.moe.normalise,
                      .scaling = config_.moe.scaling} {
    WeightReader reader(checkpoint, backend_, options);
    read_embedding_and_norms(reader, options);
    for (std::int64_t l = 0; l < config_.layers; ++l) layers_.push_back(read_layer(reader, l));
    weight_bytes_ = reader.device_bytes();
    take_scratch(options,
                 {.tokens = options.limits.tokens,
                  .seqs = options.limits.seqs,
                  .heads = MlaAttention::most_heads(config_, shard_),
                  .head_dim = config_.mla.kv_lora_rank + config_.mla.rope_dim,
                  .kv_tokens = options.limits.positions,
                  .vocab = config_.vocab,
                  .width = widest_linear(),
                  .top_k = config_.moe.top_k,
                  .gate_up = 2 * expert_width(),
                  .hidden = config_.hidden,
                  .key_dim = config_.mla.nope_dim + config_.mla.rope_dim,
                  .value_dim = config_.mla.v_dim},
                 [&](Arena& arena) { plan_scratch(arena, options.limits); });
  }

  KvRowShape kv_shape() const override { return MlaAttention::kv_shape(config_); }

 private:
  void run_mlp(std::size_t layer, const Tensor& x, const Tensor& out) override {
    if (layers_[layer].is_moe) {
      mix_experts(layers_[layer].moe, x, out);
    } else {
      run_gated_mlp(layers_[layer].dense, x, out);
    }
  }

  void attend(std::size_t layer, const Tensor& x, const ForwardBatch& batch, const KvLayer& kv,
              const Tensor& out) override {
    layers_[layer].attention.attend({backend_, config_, rope_table_, softmax_scale_}, scratch_.attention, x,
                                    batch, kv, out);
  }

  void run_gated_mlp(const GatedMlp& mlp, const Tensor& x, const Tensor& out) {
    const std::int64_t width = mlp.gate_up.out() / 2;
    const Tensor gate_up = Tensor::dense(scratch_.gate_up.data, x.dtype, x.rows, 2 * width);
    const Tensor activated = Tensor::dense(scratch_.activated.data, x.dtype, x.rows, width);
    mlp.apply(backend_, x, gate_up, activated, out);
  }

  void mix_experts(const MoeWeights& moe, const Tensor& x, const Tensor& out) {
    const Tensor scores = scratch_.router_logits.row_range(0, x.rows);
    const Tensor ids = scratch_.expert_ids.row_range(0, x.rows);
    const Tensor weights = scratch_.expert_weights.row_range(0, x.rows);
    const Tensor shared = scratch_.shared_out.row_range(0, x.rows);
    const bool has_shared = config_.moe.shared_experts > 0;
    if (has_shared) {
      backend_.aside(x.rows);
      run_gated_mlp(moe.shared, x, shared);
      backend_.back();
    }
    backend_.linear(x, moe.router, scores);
    backend_.route_experts(scores, moe.bias, routing_rule_, ids, weights);
    backend_.moe(x, ids, weights, moe.first_expert, moe.gate_up, moe.down, out);
    if (has_shared) {
      backend_.join();
      backend_.add(out, shared, out);
    }
  }

  KimiLayer read_layer(WeightReader& reader, std::int64_t index) {
    const std::string prefix = layer_prefix(index);
    KimiLayer layer{.attention = MlaAttention(reader, backend_, config_, shard_, prefix + "self_attn."),
                    .is_moe = config_.moe.experts > 0 && index >= config_.moe.first_dense_layers,
                    .dense = {},
                    .moe = {}};
    if (layer.is_moe) {
      layer.moe = read_moe(reader, prefix + "mlp.");
    } else {
      layer.dense = reader.gated_mlp(prefix + "mlp.", shard_.even(config_.dense_width));
    }
    return layer;
  }

  MoeWeights read_moe(WeightReader& reader, const std::string& prefix) {
    MoeWeights moe;
    const auto expert = [&](std::int64_t e, const char* projection) {
      return reader.host(prefix + "experts." + std::to_string(e) + "." + projection);
    };
    const Share experts =
        shard_.expert_parallel ? shard_.nearly_even(config_.moe.experts) : Share{0, config_.moe.experts};
    const Share width =
        shard_.expert_parallel ? Share{0, config_.moe.expert_width} : shard_.even(config_.moe.expert_width);
    moe.router = reader.weight(reader.host(prefix + "gate"));
    moe.bias = reader.vector(prefix + "gate.e_score_correction_bias");
    moe.first_expert = experts.first;
    moe.gate_up = reader.stack(experts.count, [&](std::int64_t e) {
      return std::vector<HostMatrix>{
          expert(experts.first + e, "gate_proj").row_range(width.first, width.count),
          expert(experts.first + e, "up_proj").row_range(width.first, width.count)};
    });
    moe.down = reader.stack(experts.count, [&](std::int64_t e) {
      return std::vector<HostMatrix>{
          expert(experts.first + e, "down_proj").col_range(width.first, width.count)};
    });
    if (config_.moe.shared_experts > 0) {
      moe.shared = reader.gated_mlp(prefix + "shared_experts.",
                                    shard_.even(config_.moe.shared_experts * config_.moe.expert_width));
    }
    return moe;
  }

  std::int64_t expert_width() const {
    return shard_.expert_parallel ? config_.moe.expert_width : shard_.even(config_.moe.expert_width).count;
  }
  std::int64_t widest_mlp() const {
    return std::max(shard_.even(config_.dense_width).count,
                    shard_.even(config_.moe.shared_experts * config_.moe.expert_width).count);
  }
  std::int64_t widest_linear() const {
    return std::max(
        {config_.hidden, 2 * widest_mlp(), 2 * expert_width(), MlaAttention::width(config_, shard_)});
  }

  void plan_scratch(Arena& arena, const StepLimits& limits) {
    const DType dtype = backend_.activation_dtype();
    const std::int64_t n = limits.tokens;
    const auto take = [&](std::int64_t rows, std::int64_t cols) { return arena.take(dtype, rows, cols); };
    scratch_.attention.plan(arena, config_, shard_, dtype, limits);
    scratch_.gate_up = take(n, 2 * widest_mlp());
    scratch_.activated = take(n, widest_mlp());
    scratch_.router_logits = arena.take(DType::kF32, n, config_.moe.experts);
    scratch_.expert_ids = arena.take(DType::kI32, n, config_.moe.top_k);
    scratch_.expert_weights = arena.take(DType::kF32, n, config_.moe.top_k);
    scratch_.shared_out = take(n, config_.hidden);
  }

  const RoutingRule routing_rule_;
  std::vector<KimiLayer> layers_;
  Scratch scratch_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_kimi(const Checkpoint& checkpoint, Backend& backend,
                                         const LoadOptions& options) {
  return std::unique_ptr<Model>(std::make_unique<Kimi>(checkpoint, backend, options));
}

}  // namespace tessera

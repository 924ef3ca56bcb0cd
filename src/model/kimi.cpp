#include "model/kimi.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/context_exchange.h"
#include "model/decoder.h"

namespace tessera {
namespace {

// Attention of one layer. Sizes below: heads = query heads on this rank, q = nope + rope.
struct MlaWeights {
  Projection q_kv_a;  // [q_lora + latent + rope, hidden]; without q_lora: [heads * q + latent + rope, hidden]
  VectorWeight q_a_norm;      // [q_lora]; empty without q_lora
  VectorWeight kv_a_norm;     // [latent]
  Weight q_b;                 // [heads * q, q_lora]; empty without q_lora
  WeightStack k_up;           // [heads, nope, latent]: W_UK, for the expanded form
  WeightStack k_up_absorbed;  // [heads, latent, nope]: its transpose, for the absorbed form
  WeightStack v_up;           // [heads, v, latent]: W_UV
  Weight o;                   // [hidden, heads * v]
};

struct MoeWeights {
  Weight router;                  // [experts, hidden]
  VectorWeight bias;              // [experts], for choice only
  std::int64_t first_expert = 0;  // of those on this rank
  WeightStack gate_up;            // [experts, 2 * width, hidden]
  WeightStack down;               // [experts, hidden, width]
  GatedMlp shared;
};

struct KimiLayer {
  MlaWeights attention;
  bool is_moe = false;
  GatedMlp dense;
  MoeWeights moe;
};

// Activations of one step; every row count is the step's token limit unless said otherwise.
struct Scratch {
  Tensor q_kv_a;                      // [tokens, q_kv_a.out]
  Tensor q_normed;                    // [tokens, q_lora]
  Tensor q;                           // [tokens, heads * (nope + rope)]
  Tensor q_absorbed;                  // [decode tokens, heads * (latent + rope)]
  Tensor o_latent;                    // [decode tokens, heads * latent]
  Tensor attended;                    // [tokens, heads * v]
  Tensor earlier, lse, earlier_lse;   // [tokens, heads * v], [tokens, heads] f32 twice: of sharded prefills
  Tensor gate_up, activated;          // [tokens, 2 * width], [tokens, width]: of the widest MLP
  Tensor router_logits;               // [tokens, experts] f32
  Tensor expert_ids, expert_weights;  // [tokens, top_k] i32, f32
  Tensor shared_out;                  // [tokens, hidden]
};

class Kimi final : public Decoder {
 public:
  Kimi(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : Decoder(checkpoint, backend, options),
        heads_(shard_.even(config_.heads).count),
        first_head_(shard_.even(config_.heads).first),
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
                  .heads = heads_ * shard_.dcp_ranks(),
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

  KvRowShape kv_shape() const override {
    return KvRowShape::mla(static_cast<std::int32_t>(config_.mla.kv_lora_rank),
                           static_cast<std::int32_t>(config_.mla.rope_dim));
  }

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
    const MlaWeights& w = layers_[layer].attention;
    const MlaConfig& mla = config_.mla;
    const std::int64_t n = x.rows;
    const std::int64_t q_dim = mla.nope_dim + mla.rope_dim;
    const std::int64_t q_first = mla.q_lora_rank > 0 ? mla.q_lora_rank : heads_ * q_dim;

    const Tensor projected = scratch_.q_kv_a.row_range(0, n);
    w.q_kv_a.apply(backend_, x, projected);
    Tensor q = projected.col_range(0, q_first);
    if (mla.q_lora_rank > 0) {
      const Tensor q_normed = scratch_.q_normed.row_range(0, n);
      backend_.rms_norm(q, w.q_a_norm, config_.latent_norm_eps, q_normed);
      q = scratch_.q.row_range(0, n);
      backend_.linear(q_normed, w.q_b, q);
    } else {
      backend_.copy(q, scratch_.q.row_range(0, n));
      q = scratch_.q.row_range(0, n);
    }
    const Tensor latent = projected.col_range(q_first, mla.kv_lora_rank);
    const Tensor rope_key = projected.col_range(q_first + mla.kv_lora_rank, mla.rope_dim);
    backend_.rms_norm(latent, w.kv_a_norm, config_.latent_norm_eps, latent);

    const Tensor attended = scratch_.attended.row_range(0, n);
    struct PartRows {
      Tensor q, latent, rope_key, out;
      bool any() const { return q.rows > 0; }
    };
    std::int64_t first = 0;
    const auto next = [&](const AttentionBatch& part) {
      const auto rows = [&](const Tensor& all) { return all.row_range(first, part.tokens); };
      const PartRows taken{rows(q), rows(latent), rows(rope_key), rows(attended)};
      first += part.tokens;
      if (taken.any()) rotate_and_store(taken.q, taken.latent, taken.rope_key, part, kv);
      return taken;
    };
    if (const PartRows part = next(batch.decode); part.any())
      attend_absorbed(w, part.q, batch.decode, kv, part.out);
    if (const PartRows part = next(batch.sharded_decode); part.any())
      attend_absorbed_sharded(w, part.q, batch.sharded_decode, kv, part.out);
    if (const PartRows part = next(batch.prefill); part.any()) {
      backend_.mla_prefill(part.q, heads_, softmax_scale_, batch.prefill, kv, w.k_up, w.v_up, part.out,
                           Tensor{});
    }
    if (const PartRows part = next(batch.sharded_prefill); part.any()) {
      backend_.write_kv_mla(part.latent, part.rope_key, batch.staged->own, batch.staged->staging);
      prefill_sharded(w, part.q, *batch.staged, kv, part.out);
    }
    backend_.linear(attended, w.o, out);
  }

  void rotate_and_store(const Tensor& q, const Tensor& latent, const Tensor& rope_key,
                        const AttentionBatch& batch, const KvLayer& kv) {
    const MlaConfig& mla = config_.mla;
    backend_.rope(q.col_range(mla.nope_dim, q.cols - mla.nope_dim), heads_, mla.nope_dim + mla.rope_dim,
                  batch.positions, rope_table_, RopePairs::kInterleaved);
    backend_.rope(rope_key, 1, mla.rope_dim, batch.positions, rope_table_, RopePairs::kInterleaved);
    backend_.write_kv_mla(latent, rope_key, batch, kv);
  }

  // q_lat[h] = W_UK[h]^T q_nope[h]; attention over (latent | rope) with one shared key; o[h] = W_UV[h]
  // o_lat[h].
  void attend_absorbed(const MlaWeights& w, const Tensor& q, const AttentionBatch& batch, const KvLayer& kv,
                       const Tensor& out) {
    const MlaConfig& mla = config_.mla;
    const Tensor o_latent = scratch_.o_latent.row_range(0, q.rows);
    backend_.mla_decode(absorb(w, q), heads_, softmax_scale_, batch, kv, o_latent, Tensor{});
    backend_.linear_heads(o_latent, mla.kv_lora_rank, w.v_up, out, mla.v_dim);
  }

  Tensor absorb(const MlaWeights& w, const Tensor& q) {
    const MlaConfig& mla = config_.mla;
    const std::int64_t q_dim = mla.nope_dim + mla.rope_dim;
    const std::int64_t row_dim = mla.kv_lora_rank + mla.rope_dim;
    const Tensor q_absorbed = scratch_.q_absorbed.row_range(0, q.rows);
    backend_.linear_heads(q, q_dim, w.k_up_absorbed, q_absorbed, row_dim);
    backend_.copy(q.reshaped(q_dim).col_range(mla.nope_dim, mla.rope_dim),
                  q_absorbed.reshaped(row_dim).col_range(mla.kv_lora_rank, mla.rope_dim));
    return q_absorbed;
  }

  // The same where each rank has some of the rows: all heads of the group over the rows that are here, then
  // the parts of this rank's heads from everywhere, merged.
  void attend_absorbed_sharded(const MlaWeights& w, const Tensor& q, const AttentionBatch& batch,
                               const KvLayer& kv, const Tensor& out) {
    const Tensor queries = exchange_.gather_queries(backend_, absorb(w, q));
    const auto [part, lse] = exchange_.partial(q.rows);
    backend_.mla_decode(queries, heads_ * shard_.dcp_ranks(), softmax_scale_, batch, kv, part, lse);
    const Tensor o_latent = scratch_.o_latent.row_range(0, q.rows);
    exchange_.combine(backend_, o_latent);
    backend_.linear_heads(o_latent, config_.mla.kv_lora_rank, w.v_up, out, config_.mla.v_dim);
  }

  // The chunk's own rows first, then round by round the earlier ones, merged into what is there.
  void prefill_sharded(const MlaWeights& w, const Tensor& q, const StagedPrefill& staged, const KvLayer& kv,
                       const Tensor& out) {
    const auto attend = [&](const Tensor& queries, const AttentionBatch& batch, const Tensor& o,
                            const Tensor& lse) {
      backend_.mla_prefill(queries, heads_, softmax_scale_, batch, staged.staging, w.k_up, w.v_up, o, lse);
    };
    attend(q, staged.own, out, scratch_.lse.row_range(0, q.rows));
    for (const ContextRound& round : staged.rounds) {
      backend_.copy_blocks(kv, round.send, staged.blocks_each, staged.send);
      const std::int64_t bytes = staged.blocks_each * kv.block_size * kv.row_bytes;
      shard_.dcp->all_gather(staged.send, staged.gathered, static_cast<std::size_t>(bytes));
      const auto rows = [&](const Tensor& all) {
        return all.row_range(round.first_token, round.batch.tokens);
      };
      const Tensor earlier = scratch_.earlier.row_range(0, round.batch.tokens);
      const Tensor earlier_lse = scratch_.earlier_lse.row_range(0, round.batch.tokens);
      attend(rows(q), round.batch, earlier, earlier_lse);
      backend_.merge_partials(pair_of(rows(out), earlier), pair_of(rows(scratch_.lse), earlier_lse), heads_,
                              rows(out), rows(scratch_.lse));
    }
  }
  static Parts pair_of(const Tensor& a, const Tensor& b) {
    return {.first = a, .count = 2, .step = static_cast<char*>(b.data) - static_cast<char*>(a.data)};
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
    backend_.linear(x, moe.router, scores);
    backend_.route_experts(scores, moe.bias, routing_rule_, ids, weights);
    backend_.moe(x, ids, weights, moe.first_expert, moe.gate_up, moe.down, out);
    if (config_.moe.shared_experts > 0) {
      const Tensor shared = scratch_.shared_out.row_range(0, x.rows);
      run_gated_mlp(moe.shared, x, shared);
      backend_.add(out, shared, out);
    }
  }

  KimiLayer read_layer(WeightReader& reader, std::int64_t index) {
    const std::string prefix = layer_prefix(index);
    KimiLayer layer;
    layer.attention = read_attention(reader, prefix + "self_attn.");
    layer.is_moe = config_.moe.experts > 0 && index >= config_.moe.first_dense_layers;
    if (layer.is_moe) {
      layer.moe = read_moe(reader, prefix + "mlp.");
    } else {
      layer.dense = reader.gated_mlp(prefix + "mlp.", shard_.even(config_.dense_width));
    }
    return layer;
  }

  MlaWeights read_attention(WeightReader& reader, const std::string& prefix) {
    const MlaConfig& mla = config_.mla;
    const std::int64_t q_dim = mla.nope_dim + mla.rope_dim;
    const HostMatrix kv_a = reader.host(prefix + "kv_a_proj_with_mqa");
    MlaWeights w;
    if (mla.q_lora_rank > 0) {
      w.q_kv_a = reader.projection({reader.host(prefix + "q_a_proj"), kv_a});
      w.q_a_norm = reader.vector(prefix + "q_a_layernorm");
      w.q_b = reader.weight(reader.host(prefix + "q_b_proj").row_range(first_head_ * q_dim, heads_ * q_dim));
    } else {
      w.q_kv_a = reader.projection(
          {reader.host(prefix + "q_proj").row_range(first_head_ * q_dim, heads_ * q_dim), kv_a});
    }
    w.kv_a_norm = reader.vector(prefix + "kv_a_layernorm");

    // kv_b is head-major: nope rows of W_UK[h], then v rows of W_UV[h].
    const std::int64_t head_rows = mla.nope_dim + mla.v_dim;
    const HostMatrix kv_b =
        reader.host(prefix + "kv_b_proj").row_range(first_head_ * head_rows, heads_ * head_rows);
    w.k_up = reader.stack(heads_, [&](std::int64_t h) {
      return std::vector<HostMatrix>{kv_b.row_range(h * head_rows, mla.nope_dim)};
    });
    w.v_up = reader.stack(heads_, [&](std::int64_t h) {
      return std::vector<HostMatrix>{kv_b.row_range(h * head_rows + mla.nope_dim, mla.v_dim)};
    });
    w.k_up_absorbed = read_absorbed(reader, kv_b);
    w.o =
        reader.weight(reader.host(prefix + "o_proj").col_range(first_head_ * mla.v_dim, heads_ * mla.v_dim));
    return w;
  }

  WeightStack read_absorbed(WeightReader& reader, const HostMatrix& kv_b) {
    const MlaConfig& mla = config_.mla;
    const std::int64_t latent = mla.kv_lora_rank;
    std::vector<float> row(static_cast<std::size_t>(latent));
    std::vector<float> transposed(static_cast<std::size_t>(heads_ * latent * mla.nope_dim));
    for (std::int64_t h = 0; h < heads_; ++h) {
      for (std::int64_t d = 0; d < mla.nope_dim; ++d) {
        kv_b.dequantise_row(h * (mla.nope_dim + mla.v_dim) + d, row.data());
        for (std::int64_t c = 0; c < latent; ++c) {
          transposed[static_cast<std::size_t>((h * latent + c) * mla.nope_dim + d)] =
              row[static_cast<std::size_t>(c)];
        }
      }
    }
    // bf16 holds bf16 exactly; anything else keeps f32 unless the device computes in bf16 anyway.
    const bool narrow = kv_b.format == WeightFormat::kBF16 || backend_.activation_dtype() == DType::kBF16;
    return reader.stack_f32(narrow ? WeightFormat::kBF16 : WeightFormat::kF32, heads_, latent, mla.nope_dim,
                            transposed);
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
    const MlaConfig& mla = config_.mla;
    return std::max({config_.hidden, 2 * widest_mlp(), 2 * expert_width(), mla.q_lora_rank,
                     heads_ * (mla.nope_dim + mla.rope_dim) + mla.kv_lora_rank + mla.rope_dim,
                     heads_ * (mla.kv_lora_rank + mla.rope_dim), heads_ * mla.v_dim});
  }

  void plan_scratch(Arena& arena, const StepLimits& limits) {
    const MlaConfig& mla = config_.mla;
    const DType dtype = backend_.activation_dtype();
    const std::int64_t n = limits.tokens;
    const std::int64_t q_width = heads_ * (mla.nope_dim + mla.rope_dim);
    const auto take = [&](std::int64_t rows, std::int64_t cols) { return arena.take(dtype, rows, cols); };
    scratch_.q_kv_a =
        take(n, (mla.q_lora_rank > 0 ? mla.q_lora_rank : q_width) + mla.kv_lora_rank + mla.rope_dim);
    scratch_.q_normed = take(n, mla.q_lora_rank);
    scratch_.q = take(n, q_width);
    scratch_.q_absorbed = take(limits.decode_tokens, heads_ * (mla.kv_lora_rank + mla.rope_dim));
    scratch_.o_latent = take(limits.decode_tokens, heads_ * mla.kv_lora_rank);
    scratch_.attended = take(n, heads_ * mla.v_dim);
    if (shard_.dcp) {
      scratch_.earlier = take(n, heads_ * mla.v_dim);
      scratch_.lse = arena.take(DType::kF32, n, heads_);
      scratch_.earlier_lse = arena.take(DType::kF32, n, heads_);
      exchange_.plan(arena, shard_.dcp, shard_.exchange,
                     {.tokens = limits.decode_tokens,
                      .heads = heads_,
                      .key_dim = mla.kv_lora_rank + mla.rope_dim,
                      .value_dim = mla.kv_lora_rank,
                      .dtype = dtype});
    }
    scratch_.gate_up = take(n, 2 * widest_mlp());
    scratch_.activated = take(n, widest_mlp());
    scratch_.router_logits = arena.take(DType::kF32, n, config_.moe.experts);
    scratch_.expert_ids = arena.take(DType::kI32, n, config_.moe.top_k);
    scratch_.expert_weights = arena.take(DType::kF32, n, config_.moe.top_k);
    scratch_.shared_out = take(n, config_.hidden);
  }

  const std::int64_t heads_;  // query heads on this rank
  const std::int64_t first_head_;
  const RoutingRule routing_rule_;
  std::vector<KimiLayer> layers_;
  Scratch scratch_;
  ContextExchange exchange_;
};

}  // namespace

Result<std::unique_ptr<Model>> load_kimi(const Checkpoint& checkpoint, Backend& backend,
                                         const LoadOptions& options) {
  return std::unique_ptr<Model>(std::make_unique<Kimi>(checkpoint, backend, options));
}

}  // namespace tessera

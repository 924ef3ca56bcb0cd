#include "model/eagle3.h"

#include <algorithm>
#include <optional>
#include <string>

#include "model/draft_frame.h"
#include "model/gqa_attention.h"
#include "model/mla_attention.h"

namespace tessera {
namespace {

class Eagle3 final : public DraftFrame {
 public:
  explicit Eagle3(const DraftParts& parts) : DraftFrame(parts) {
    LoadOptions load{.limits = limits_, .shard = shard_, .on_bytes = {}};
    WeightReader reader(parts.checkpoint, backend_, load);
    read_vocabulary(reader, parts);
    const std::string prefix = "layers.0.";
    embedding_norm_ = reader.vector(prefix + "input_layernorm");
    hidden_norm_ = reader.vector(prefix + "hidden_norm");
    post_attention_norm_ = reader.vector(prefix + "post_attention_layernorm");
    if (config_.has_mla()) {
      mla_.emplace(reader, backend_, config_, shard_, prefix + "self_attn.");
    } else {
      gqa_.emplace(reader, config_, shard_, prefix + "self_attn.");
    }
    mlp_ = reader.gated_mlp(prefix + "mlp.", shard_.even(config_.dense_width));
    weight_bytes_ = reader.device_bytes();
    const std::int64_t width =
        mla_ ? MlaAttention::width(config_, shard_) : GqaAttention::width(config_, shard_);
    const std::int64_t head_dim = mla_ ? config_.mla.kv_lora_rank + config_.mla.rope_dim : config_.head_dim;
    take_scratch(backend_limits(std::max(width, 2 * config_.hidden), head_dim),
                 [&](Arena& arena) { plan_scratch(arena); });
  }

  KvRowShape kv_shape() const override {
    return mla_ ? MlaAttention::kv_shape(config_) : GqaAttention::kv_shape(config_, shard_);
  }
  std::int64_t block_size() const override { return 0; }

  void observe(const ForwardBatch& batch, const Tensor& aux, std::span<const KvLayer> kv) override {
    fuse(aux, stream_.row_range(0, batch.tokens));
    run(batch, kv);
  }

  // The hidden state of a drafted token is what the layer itself gave for the token before.
  void advance(const DraftRows& rows, std::span<const KvLayer> kv) override {
    const std::int64_t n = rows.attention.tokens;
    const Tensor picked = picked_.row_range(0, n);
    const Tensor& fed_back = config_.draft->norm_output ? normed_ : stream_;
    backend_.gather_rows(fed_back.row_range(0, pass_rows_), rows.from, picked);
    backend_.copy(picked, stream_.row_range(0, n));
    ForwardBatch batch;
    batch.tokens = rows.attention.tokens;
    batch.ids = rows.ids;
    batch.decode = rows.attention;
    run(batch, kv);
  }

 private:
  // stream_ holds the hidden states of the batch's rows.
  void run(const ForwardBatch& batch, std::span<const KvLayer> kv) {
    const std::int64_t n = batch.tokens;
    const Tensor stream = stream_.row_range(0, n);
    const Tensor normed = normed_.row_range(0, n);
    const Tensor delta = delta_.row_range(0, n);
    const Tensor input = input_.row_range(0, n);
    const Tensor hidden = input.col_range(config_.hidden, config_.hidden);
    embed(batch.ids, delta);
    backend_.rms_norm(delta, embedding_norm_, config_.rms_eps, input.col_range(0, config_.hidden));
    backend_.rms_norm(stream, hidden_norm_, config_.rms_eps, hidden);
    if (config_.draft->norm_before_residual) backend_.copy(hidden, stream);
    if (mla_) {
      mla_->attend(frame(), mla_scratch_, input, batch, kv.front(), delta);
    } else {
      gqa_->attend(frame(), gqa_scratch_, input, batch, kv.front(), delta);
    }
    shard_.reduce(delta);
    backend_.add_rms_norm(stream, delta, post_attention_norm_, config_.rms_eps, normed);
    run_mlp(mlp_, normed, delta);
    shard_.reduce(delta);
    backend_.add_rms_norm(stream, delta, final_norm_, config_.rms_eps, normed);
    pass_rows_ = n;
  }

  void plan_scratch(Arena& arena) {
    const DType dtype = backend_.activation_dtype();
    input_ = arena.take(dtype, limits_.tokens, 2 * config_.hidden);
    picked_ = arena.take(dtype, limits_.seqs, config_.hidden);
    if (mla_) {
      mla_scratch_.plan(arena, config_, shard_, dtype, limits_);
    } else {
      gqa_scratch_.plan(arena, config_, shard_, dtype, limits_.tokens);
    }
  }

  VectorWeight embedding_norm_, hidden_norm_, post_attention_norm_;  // [hidden]
  std::optional<MlaAttention> mla_;                                  // one of the two
  std::optional<GqaAttention> gqa_;
  GatedMlp mlp_;
  MlaScratch mla_scratch_;
  GqaScratch gqa_scratch_;
  Tensor input_;   // [tokens, 2 * hidden]: embedding first
  Tensor picked_;  // [seqs, hidden]
};

}  // namespace

std::unique_ptr<DraftModel> load_eagle3(const DraftParts& parts) { return std::make_unique<Eagle3>(parts); }

}  // namespace tessera

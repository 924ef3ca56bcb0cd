#include "model/dflash.h"

#include <string>
#include <utility>
#include <vector>

#include "model/draft_frame.h"
#include "model/gqa_attention.h"

namespace tessera {
namespace {

struct DFlashLayer {
  VectorWeight input_norm, post_attention_norm;  // [hidden]
  GqaAttention attention;
  GatedMlp mlp;
};

class DFlash final : public DraftFrame {
 public:
  explicit DFlash(const DraftParts& parts) : DraftFrame(parts) {
    LoadOptions load{.limits = limits_, .shard = shard_, .on_bytes = {}};
    WeightReader reader(parts.checkpoint, backend_, load);
    read_vocabulary(reader, parts);
    context_norm_ = reader.vector("hidden_norm");
    for (std::int64_t l = 0; l < config_.layers; ++l) {
      const std::string prefix = "layers." + std::to_string(l) + ".";
      layers_.push_back({.input_norm = reader.vector(prefix + "input_layernorm"),
                         .post_attention_norm = reader.vector(prefix + "post_attention_layernorm"),
                         .attention = GqaAttention(reader, config_, shard_, prefix + "self_attn."),
                         .mlp = reader.gated_mlp(prefix + "mlp.", shard_.even(config_.dense_width))});
    }
    weight_bytes_ = reader.device_bytes();
    take_scratch(backend_limits(GqaAttention::width(config_, shard_), config_.head_dim), [&](Arena& arena) {
      scratch_.plan(arena, config_, shard_, backend_.activation_dtype(), limits_.tokens);
    });
  }

  KvRowShape kv_shape() const override { return GqaAttention::kv_shape(config_, shard_); }
  std::int64_t block_size() const override { return config_.draft->block_size; }

  // The context is no query: every layer projects the same fused state into its own keys and values.
  void observe(const ForwardBatch& batch, const Tensor& aux, std::span<const KvLayer> kv) override {
    const Tensor fused = stream_.row_range(0, batch.tokens);
    const Tensor context = normed_.row_range(0, batch.tokens);
    fuse(aux, fused);
    backend_.rms_norm(fused, context_norm_, config_.rms_eps, context);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      layers_[l].attention.store(frame(), scratch_, context, batch, kv[l]);
    }
    pass_rows_ = 0;
  }

  // Keys and values of the block lie where the next step's context will be written.
  void advance(const DraftRows& rows, std::span<const KvLayer> kv) override {
    const std::int64_t n = rows.attention.tokens;
    ForwardBatch batch;
    batch.tokens = rows.attention.tokens;
    batch.ids = rows.ids;
    batch.decode = rows.attention;
    const Tensor stream = stream_.row_range(0, n);
    const Tensor normed = normed_.row_range(0, n);
    const Tensor delta = delta_.row_range(0, n);
    embed(rows.ids, stream);
    backend_.rms_norm(stream, layers_.front().input_norm, config_.rms_eps, normed);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      layers_[l].attention.attend(frame(), scratch_, normed, batch, kv[l], delta);
      shard_.reduce(delta);
      backend_.add_rms_norm(stream, delta, layers_[l].post_attention_norm, config_.rms_eps, normed);
      run_mlp(layers_[l].mlp, normed, delta);
      shard_.reduce(delta);
      const VectorWeight& next = l + 1 < layers_.size() ? layers_[l + 1].input_norm : final_norm_;
      backend_.add_rms_norm(stream, delta, next, config_.rms_eps, normed);
    }
    pass_rows_ = n;
  }

 private:
  VectorWeight context_norm_;  // [hidden]
  std::vector<DFlashLayer> layers_;
  GqaScratch scratch_;
};

}  // namespace

std::unique_ptr<DraftModel> load_dflash(const DraftParts& parts) { return std::make_unique<DFlash>(parts); }

}  // namespace tessera

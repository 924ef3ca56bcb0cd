// What EAGLE-3 and DFlash drafts share: vocabulary (their own or the target's), fusion of the target's hidden
// states, the layers' shard.
#pragma once

#include <optional>
#include <vector>

#include "model/attention_frame.h"
#include "model/draft.h"
#include "model/layers.h"
#include "model/vocabulary_head.h"

namespace tessera {

struct DraftParts {  // what a draft is made from
  const Checkpoint& checkpoint;
  const ModelConfig& target_config;
  Model& target;
  Backend& backend;
  const DraftOptions& options;
};

class DraftFrame : public DraftModel {
 public:
  const ModelConfig& config() const final { return config_; }
  const AuxLayers& aux_layers() const final { return aux_layers_; }
  std::int64_t layers() const final { return config_.layers; }
  std::int64_t positions() const final { return positions_; }
  bool is_sharded() const final { return shard_.ranks() > 1; }
  std::size_t weight_bytes() const final { return weight_bytes_; }
  std::size_t scratch_bytes() const final { return scratch_bytes_; }
  std::span<const std::int32_t> token_ids() const final { return token_ids_; }
  void argmax(const std::int32_t* rows, std::int64_t count, std::int32_t* tokens) final;
  Tensor logits(const std::int32_t* rows, std::int64_t count) final;
  std::int64_t argmax_bytes() const final { return argmax_exchange_bytes(head_.shard().ranks()); }

 protected:
  explicit DraftFrame(const DraftParts& parts);
  void read_vocabulary(WeightReader& reader, const DraftParts& parts);
  template <class Plan>
  void take_scratch(const Backend::Limits& limits, const Plan& plan) {
    storage_ = fill_arena(backend_, scratch_bytes_, [&](Arena& arena) {
      plan_frame(arena);
      plan(arena);
    });
    scratch_bytes_ += backend_.reserve(limits);
  }

  void embed(const std::int32_t* ids, const Tensor& out);
  // out = fc(aux), each state normed before where the draft wants it (EAGLE-3.1). [tokens, hidden]
  void fuse(const Tensor& aux, const Tensor& out);
  void run_mlp(const GatedMlp& mlp, const Tensor& x, const Tensor& out);
  AttentionFrame frame() const { return {backend_, config_, rope_table_, softmax_scale_}; }
  // The back-end's scratch for passes over `width` wide activations.
  Backend::Limits backend_limits(std::int64_t width, std::int64_t head_dim) const;

  Backend& backend_;
  const ModelConfig config_;
  const AuxLayers aux_layers_;
  const Shard shard_;  // of the layers: the options', or one rank's where they do not divide
  StepLimits limits_;  // tokens: the most that any pass has
  RopeTable rope_table_;
  float softmax_scale_ = 1;
  Weight fuse_;                          // [hidden, aux layers * target hidden]
  std::vector<VectorWeight> aux_norms_;  // [aux layers] of [target hidden]; empty without
  VectorWeight final_norm_;
  std::size_t weight_bytes_ = 0;
  // The last pass. [tokens, hidden]
  Tensor stream_;  // its residual stream
  Tensor normed_;  // after final_norm_: what the head reads
  Tensor delta_;
  std::int64_t pass_rows_ = 0;

 private:
  void plan_frame(Arena& arena);

  Model& target_;
  const Shard vocabulary_shard_;  // of the draft's own embedding and head
  std::int64_t positions_ = 0;
  std::optional<Weight> embedding_;    // [share, hidden]; absent: the target's
  std::optional<Weight> head_weight_;  // likewise
  VocabularyHead head_;
  std::vector<std::int32_t> token_ids_;
  Buffer token_map_;  // token_ids_ on the device
  std::size_t scratch_bytes_ = 0;
  Buffer storage_;
  Tensor aux_normed_;           // [tokens, aux layers * target hidden]; empty without aux_norms_
  Tensor gate_up_, activated_;  // [tokens, 2 * width], [tokens, width]
};

}  // namespace tessera

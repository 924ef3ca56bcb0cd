// The skeleton that every family shares: embedding, h += attention(norm(h)), h += mlp(norm(h)) layer by
// layer, final norm, head. A family adds its attention, its MLP and their scratch.
#pragma once

#include <cstdint>
#include <vector>

#include "model/layers.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace tessera {

class Decoder : public Model {
 public:
  std::int64_t layers() const final { return config_.layers; }
  std::int64_t vocab() const final { return config_.vocab; }
  std::size_t weight_bytes() const final { return weight_bytes_; }
  std::size_t scratch_bytes() const final { return scratch_bytes_; }

  Tensor forward(const ForwardBatch& batch, std::span<const KvLayer> kv) final;
  Tensor logits(const Tensor& hidden, const std::int32_t* rows, std::int64_t count) final;
  void argmax(const Tensor& hidden, const std::int32_t* rows, std::int64_t count, std::int32_t* tokens) final;
  Tensor aux_states() const final { return aux_states_.row_range(0, last_tokens_); }
  void embed(const std::int32_t* ids, const Tensor& out) final;
  const VocabularyHead& head() const final { return vocabulary_.head(); }

 protected:
  // What this rank adds to the residual stream: out [tokens, hidden], before the sum over ranks.
  virtual void attend(std::size_t layer, const Tensor& normed, const ForwardBatch& batch, const KvLayer& kv,
                      const Tensor& out) = 0;
  virtual void run_mlp(std::size_t layer, const Tensor& normed, const Tensor& out) = 0;

  // A family's constructor reads its layers through `reader`, between the two halves of the skeleton, and
  // then takes scratch.
  Decoder(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options);
  void read_embedding_and_norms(WeightReader& reader, const LoadOptions& options);
  template <class Plan>
  void take_scratch(const LoadOptions& options, const Backend::Limits& limits, const Plan& plan) {
    storage_ = fill_arena(backend_, scratch_bytes_, [&](Arena& arena) {
      plan_frame(arena, options.limits);
      plan(arena);
    });
    scratch_bytes_ += backend_.reserve(limits);
  }
  static std::string layer_prefix(std::int64_t layer) {
    return "model.layers." + std::to_string(layer) + ".";
  }

  Backend& backend_;
  const ModelConfig config_;
  const Shard shard_;
  RopeTable rope_table_;
  float softmax_scale_ = 1;
  std::size_t weight_bytes_ = 0;

 private:
  struct LayerNorms {
    VectorWeight input, post_attention;  // [hidden]
  };

  void plan_frame(Arena& arena, const StepLimits& limits);
  void keep_aux(std::int64_t layer, const Tensor& residual) const;

  VocabularyShards vocabulary_;
  std::vector<LayerNorms> norms_;
  VectorWeight final_norm_;
  std::size_t scratch_bytes_ = 0;
  Buffer storage_;
  Tensor residual_, normed_, delta_;  // [tokens, hidden]
  const std::vector<std::int64_t> aux_layers_;
  Tensor aux_states_;             // [tokens, aux layers * hidden]
  std::int64_t last_tokens_ = 0;  // of the last forward
};

}  // namespace tessera

#include "model/draft_frame.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/rope.h"

namespace tessera {
namespace {

// Whether every split dimension of the draft's layers divides by the ranks, and its weight formats can be cut
// there.
bool layers_divide(const Checkpoint& checkpoint, int ranks) {
  const ModelConfig& config = checkpoint.config();
  if (config.heads % ranks != 0 || config.dense_width % ranks != 0) return false;
  if (!config.has_mla() && config.kv_heads % ranks != 0) return false;
  for (std::int64_t l = 0; l < config.layers; ++l) {
    for (const char* name : {"self_attn.o_proj", "mlp.down_proj"}) {
      const HostMatrix matrix = checkpoint.matrix("layers." + std::to_string(l) + "." + name);
      if (!matrix.can_cut_columns(matrix.in / ranks)) return false;
    }
  }
  return true;
}

AuxLayers aux_layers_that_fit(const DraftParts& parts) {
  auto layers = aux_layers_of(parts.checkpoint.config(), parts.target_config);
  TS_CHECK(layers.ok(), layers.error().message());  // load_draft has asked check_draft
  return *std::move(layers);
}

}  // namespace

DraftFrame::DraftFrame(const DraftParts& parts)
    : backend_(parts.backend),
      config_(parts.checkpoint.config()),
      aux_layers_(aux_layers_that_fit(parts)),
      shard_(layers_divide(parts.checkpoint, parts.options.shard.ranks()) ? parts.options.shard : Shard{}),
      limits_(parts.options.limits),
      target_(parts.target),
      vocabulary_shard_(parts.options.shard),
      positions_(std::min(parts.options.limits.positions, config_.max_positions)) {}

void DraftFrame::read_vocabulary(WeightReader& reader, const DraftParts& parts) {
  const Checkpoint& checkpoint = parts.checkpoint;
  const auto share_of = [&](const char* name, std::int64_t rows) {
    const Share share = vocabulary_shard_.padded(rows);
    return reader.weight(reader.host(name).row_range(share.first, share.count));
  };
  if (checkpoint.has("embed_tokens")) embedding_ = share_of("embed_tokens", config_.vocab);
  VocabularyHead::Shape shape{.vocab = config_.vocab,
                              .hidden = config_.hidden,
                              .rows = std::max<std::int64_t>(1, limits_.logit_rows)};
  if (checkpoint.has("lm_head")) {
    shape.vocab = config_.draft->draft_vocab;
    head_weight_ = share_of("lm_head", shape.vocab);
    head_.bind(*head_weight_, shape, vocabulary_shard_);
  } else {
    head_.bind(target_.head().weight(), shape, target_.head().shard());
  }
  if (checkpoint.has("d2t")) {  // holds target id minus draft id, ascending sums (the binding has checked)
    const std::vector<std::int64_t> offsets = checkpoint.token_map("d2t");
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      token_ids_.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) + offsets[i]));
    }
    token_map_ = backend_.allocate(token_ids_.size() * sizeof(std::int32_t));
    backend_.copy_to_device(token_map_.get(), token_ids_.data(), token_ids_.size() * sizeof(std::int32_t));
  }
  const auto states = aux_layers_.after.size();
  for (std::size_t i = 0; config_.draft->fc_norm && i < states; ++i) {
    aux_norms_.push_back(reader.vector("fc_norm." + std::to_string(i)));
  }
  fuse_ = reader.weight(reader.host("fc"));
  final_norm_ = reader.vector("norm");
  rope_table_ = backend_.prepare_rope(positions_, rope_frequencies(config_), rope_multiplier(config_));
  softmax_scale_ = softmax_scale(config_);
}

void DraftFrame::plan_frame(Arena& arena) {
  const DType dtype = backend_.activation_dtype();
  const std::int64_t width = shard_.even(config_.dense_width).count;
  stream_ = arena.take(dtype, limits_.tokens, config_.hidden);
  normed_ = arena.take(dtype, limits_.tokens, config_.hidden);
  delta_ = arena.take(dtype, limits_.tokens, config_.hidden);
  if (!aux_norms_.empty()) aux_normed_ = arena.take(dtype, limits_.tokens, fuse_.in);
  gate_up_ = arena.take(dtype, limits_.tokens, 2 * width);
  activated_ = arena.take(dtype, limits_.tokens, width);
  head_.plan(arena, dtype);
}

Backend::Limits DraftFrame::backend_limits(std::int64_t width, std::int64_t head_dim) const {
  return {.tokens = limits_.tokens,
          .seqs = limits_.seqs,
          .heads = shard_.even(config_.heads).count,
          .head_dim = head_dim,
          .kv_tokens = positions_,
          .vocab = config_.vocab,
          .width = std::max({config_.hidden, 2 * shard_.even(config_.dense_width).count, fuse_.in, width}),
          .top_k = 0,
          .gate_up = 0,
          .hidden = config_.hidden,
          .key_dim = config_.has_mla() ? config_.mla.nope_dim + config_.mla.rope_dim : 0,
          .value_dim = config_.mla.v_dim};
}

void DraftFrame::embed(const std::int32_t* ids, const Tensor& out) {
  if (!embedding_) {
    target_.embed(ids, out);
    return;
  }
  backend_.embed(ids, *embedding_, vocabulary_shard_.padded(config_.vocab).first, out);
  vocabulary_shard_.reduce(out);
}

void DraftFrame::fuse(const Tensor& aux, const Tensor& out) {
  TS_CHECK(aux.cols == fuse_.in, aux.cols, fuse_.in);
  if (aux_norms_.empty()) {
    backend_.linear(aux, fuse_, out);
    return;
  }
  const Tensor normed = aux_normed_.row_range(0, aux.rows);
  const std::int64_t width = config_.draft->target_hidden;
  for (std::size_t i = 0; i < aux_norms_.size(); ++i) {
    const auto first = static_cast<std::int64_t>(i) * width;
    backend_.rms_norm(aux.col_range(first, width), aux_norms_[i], config_.rms_eps,
                      normed.col_range(first, width));
  }
  backend_.linear(normed, fuse_, out);
}

void DraftFrame::run_mlp(const GatedMlp& mlp, const Tensor& x, const Tensor& out) {
  mlp.apply(backend_, x, gate_up_.row_range(0, x.rows), activated_.row_range(0, x.rows), out);
}

void DraftFrame::argmax(const std::int32_t* rows, std::int64_t count, std::int32_t* tokens) {
  head_.argmax(backend_, normed_.row_range(0, pass_rows_), rows, count,
               static_cast<const std::int32_t*>(token_map_.get()), tokens);
}

Tensor DraftFrame::logits(const std::int32_t* rows, std::int64_t count) {
  return head_.logits(backend_, normed_.row_range(0, pass_rows_), rows, count);
}

}  // namespace tessera

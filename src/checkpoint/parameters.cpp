#include "checkpoint/parameters.h"

#include <utility>

namespace tessera {
namespace {

constexpr std::int64_t kEagleAuxStates = 3;  // when the config does not name the layers

// Collects the parameters of one model; `prefix` is that of the current module.
class Lister {
 public:
  explicit Lister(const ModelConfig& config) : config_(config) {}

  std::vector<Parameter> target() {
    add("model.embed_tokens", ParameterRole::kEmbedding, ModuleClass::kEmbedding, config_.vocab,
        config_.hidden);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      layer_ = static_cast<std::int32_t>(layer);
      decoder_layer("model.layers." + std::to_string(layer) + ".", config_.hidden, false);
    }
    layer_ = -1;
    norm("model.norm", config_.hidden);
    if (!config_.tied_embeddings) linear("lm_head", ModuleClass::kHead, config_.vocab, config_.hidden);
    return std::move(list_);
  }

  std::vector<Parameter> draft() {
    const DraftConfig& draft = *config_.draft;
    const bool eagle = config_.architecture != Architecture::kDFlash;
    const bool reduced = draft.draft_vocab != config_.vocab;
    add("embed_tokens", ParameterRole::kEmbedding, ModuleClass::kEmbedding, config_.vocab, config_.hidden)
        .optional = true;
    if (draft.use_aux) {
      const auto named = static_cast<std::int64_t>(draft.aux_layers.size());
      const std::int64_t states = named > 0 ? named : kEagleAuxStates;
      if (draft.fc_norm) {
        for (std::int64_t i = 0; i < states; ++i) norm("fc_norm." + std::to_string(i), draft.target_hidden);
      }
      linear("fc", ModuleClass::kFusion, config_.hidden, states * draft.target_hidden);
    }
    if (!eagle) norm("hidden_norm", config_.hidden);
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      layer_ = static_cast<std::int32_t>(layer);
      const bool fused_input = eagle && layer == 0;  // attention reads [embedding, hidden state]
      decoder_layer("layers." + std::to_string(layer) + ".", config_.hidden * (fused_input ? 2 : 1),
                    fused_input);
    }
    layer_ = -1;
    norm("norm", config_.hidden);
    // A head over the full vocabulary may be the target's; a reduced one is always the draft's own.
    linear("lm_head", ModuleClass::kHead, draft.draft_vocab, config_.hidden).optional = !reduced;
    if (eagle) {
      token_map("d2t", draft.draft_vocab).optional = !reduced;
      token_map("t2d", config_.vocab).optional = true;  // follows from d2t
    }
    return std::move(list_);
  }

 private:
  Parameter& add(std::string name, ParameterRole role, ModuleClass module_class, std::int64_t rows,
                 std::int64_t cols) {
    list_.push_back({.name = std::move(name),
                     .role = role,
                     .module_class = module_class,
                     .layer = layer_,
                     .rows = rows,
                     .cols = cols});
    return list_.back();
  }
  Parameter& linear(std::string name, ModuleClass module_class, std::int64_t rows, std::int64_t cols) {
    return add(std::move(name), ParameterRole::kLinear, module_class, rows, cols);
  }
  void norm(std::string name, std::int64_t size) {
    add(std::move(name), ParameterRole::kVector, ModuleClass::kNorm, size, 1);
  }
  Parameter& token_map(std::string name, std::int64_t size) {
    Parameter& map = add(std::move(name), ParameterRole::kTokenMap, ModuleClass::kTokenMap, size, 1);
    map.has_weight_suffix = false;
    return map;
  }

  void decoder_layer(const std::string& prefix, std::int64_t attention_in, bool hidden_norm) {
    norm(prefix + "input_layernorm", config_.hidden);
    if (hidden_norm) norm(prefix + "hidden_norm", config_.hidden);
    if (config_.has_mla()) {
      mla_attention(prefix + "self_attn.", attention_in);
    } else {
      gqa_attention(prefix + "self_attn.", attention_in);
    }
    norm(prefix + "post_attention_layernorm", config_.hidden);
    if (config_.is_moe_layer(layer_)) {
      experts(prefix + "mlp.");
    } else {
      mlp(prefix + "mlp.", ModuleClass::kDenseMlp, config_.dense_width);
    }
  }

  void mla_attention(const std::string& prefix, std::int64_t in) {
    const MlaConfig& mla = config_.mla;
    const std::int64_t q_rows = config_.heads * (mla.nope_dim + mla.rope_dim);
    if (mla.q_lora_rank > 0) {
      linear(prefix + "q_a_proj", ModuleClass::kAttention, mla.q_lora_rank, in);
      norm(prefix + "q_a_layernorm", mla.q_lora_rank);
      linear(prefix + "q_b_proj", ModuleClass::kAttention, q_rows, mla.q_lora_rank);
    } else {
      linear(prefix + "q_proj", ModuleClass::kAttention, q_rows, in);
    }
    linear(prefix + "kv_a_proj_with_mqa", ModuleClass::kAttention, mla.kv_lora_rank + mla.rope_dim, in);
    norm(prefix + "kv_a_layernorm", mla.kv_lora_rank);
    linear(prefix + "kv_b_proj", ModuleClass::kAttention, config_.heads * (mla.nope_dim + mla.v_dim),
           mla.kv_lora_rank);
    linear(prefix + "o_proj", ModuleClass::kAttention, config_.hidden, config_.heads * mla.v_dim);
  }

  void gqa_attention(const std::string& prefix, std::int64_t in) {
    const std::int64_t q_rows = config_.heads * config_.head_dim;
    const std::int64_t kv_rows = config_.kv_heads * config_.head_dim;
    linear(prefix + "q_proj", ModuleClass::kAttention, q_rows, in);
    linear(prefix + "k_proj", ModuleClass::kAttention, kv_rows, in);
    linear(prefix + "v_proj", ModuleClass::kAttention, kv_rows, in);
    if (config_.qk_norm) {
      norm(prefix + "q_norm", config_.head_dim);
      norm(prefix + "k_norm", config_.head_dim);
    }
    linear(prefix + "o_proj", ModuleClass::kAttention, config_.hidden, q_rows);
  }

  void mlp(const std::string& prefix, ModuleClass module_class, std::int64_t width) {
    linear(prefix + "gate_proj", module_class, width, config_.hidden);
    linear(prefix + "up_proj", module_class, width, config_.hidden);
    linear(prefix + "down_proj", module_class, config_.hidden, width);
  }

  void experts(const std::string& prefix) {
    const MoeConfig& moe = config_.moe;
    add(prefix + "gate", ParameterRole::kPlainMatrix, ModuleClass::kRouter, moe.experts, config_.hidden);
    add(prefix + "gate.e_score_correction_bias", ParameterRole::kVector, ModuleClass::kRouter, moe.experts, 1)
        .has_weight_suffix = false;
    if (moe.shared_experts > 0) {
      mlp(prefix + "shared_experts.", ModuleClass::kSharedExpert, moe.shared_experts * moe.expert_width);
    }
    for (std::int64_t expert = 0; expert < moe.experts; ++expert) {
      mlp(prefix + "experts." + std::to_string(expert) + ".", ModuleClass::kRoutedExpert, moe.expert_width);
    }
  }

  const ModelConfig& config_;
  std::vector<Parameter> list_;
  std::int32_t layer_ = -1;
};

}  // namespace

std::string_view name_of(ModuleClass module_class) {
  switch (module_class) {
    case ModuleClass::kEmbedding:
      return "embedding";
    case ModuleClass::kHead:
      return "lm head";
    case ModuleClass::kNorm:
      return "norms";
    case ModuleClass::kAttention:
      return "attention";
    case ModuleClass::kDenseMlp:
      return "dense mlp";
    case ModuleClass::kRouter:
      return "router";
    case ModuleClass::kSharedExpert:
      return "shared experts";
    case ModuleClass::kRoutedExpert:
      return "routed experts";
    case ModuleClass::kFusion:
      return "fusion";
    case ModuleClass::kTokenMap:
      return "token map";
  }
  return "?";
}

std::vector<Parameter> parameters_of(const ModelConfig& config) {
  Lister lister(config);
  return config.draft ? lister.draft() : lister.target();
}

WeightFormat promised_format(const ModelConfig& config, const Parameter& matrix, bool ignored) {
  const bool quantised =
      matrix.role == ParameterRole::kLinear && matrix.module_class != ModuleClass::kHead && !ignored;
  if (quantised && config.quantisation.scheme == QuantisationScheme::kInt4Group32)
    return WeightFormat::kInt4Group32;
  if (quantised && config.quantisation.scheme == QuantisationScheme::kFp8Block128)
    return WeightFormat::kFp8Block128;
  return WeightFormat::kBF16;
}

int tensors_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      return 1;
    case WeightFormat::kFp8Block128:
      return 2;
    case WeightFormat::kInt4Group32:
      return 3;
  }
  return 0;
}

std::int64_t weight_bytes(WeightFormat format, std::int64_t rows, std::int64_t cols) {
  return HostMatrix{.format = format, .out = rows, .in = cols}.bytes();
}

}  // namespace tessera

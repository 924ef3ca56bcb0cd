// How a folder's files spell the canonical names of parameters.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/model_config.h"
#include "checkpoint/tensor_files.h"

namespace tessera {

struct TensorNaming {
  // Targets: stands in for "model."; one of "model.", "language_model.model." (Kimi-K2.5/2.6),
  // "language_model." (some repacks of these), "model.language_model.". Drafts: "" or "model.".
  std::string body = "model.";
  std::string head;           // before "lm_head"
  bool is_draft = false;      // canonical names have no "model."
  bool has_midlayer = false;  // EAGLE-3 drafts: "midlayer." for "layers.0."

  std::string stored(std::string_view canonical) const;
};

// The spelling that finds the most of three parameters that every model has.
TensorNaming naming_of(const ModelConfig& config, const TensorFiles& files);

// Why a tensor that is no parameter of the text model may be left unread; nothing when it may not.
enum class SkipReason : std::uint8_t {
  kVision,        // vision_tower.*, mm_projector.*
  kRotaryTable,   // rotary_emb.inv_freq, computed anyway
  kPredictLayer,  // DeepSeek's multi-token prediction: layers from num_hidden_layers on
  kTiedHead,      // lm_head beside tie_word_embeddings
};
constexpr int kSkipReasons = 4;
std::string_view explain(SkipReason reason);  // "vision tensors (…)"
std::optional<SkipReason> may_skip(const ModelConfig& config, const TensorNaming& naming,
                                   std::string_view stored);

}  // namespace tessera

#include "checkpoint/tensor_naming.h"

#include <charconv>
#include <vector>

namespace tessera {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kFirstLayer = "layers.0.";

bool is_outside_body(std::string_view draft_name) {
  return draft_name == "lm_head" || draft_name == "d2t" || draft_name == "t2d";
}

}  // namespace

std::string TensorNaming::stored(std::string_view canonical) const {
  if (!is_draft) {
    if (canonical.starts_with(kModel)) return body + std::string(canonical.substr(kModel.size()));
    return head + std::string(canonical);
  }
  if (is_outside_body(canonical)) return head + std::string(canonical);
  if (has_midlayer && canonical.starts_with(kFirstLayer)) {
    return body + "midlayer." + std::string(canonical.substr(kFirstLayer.size()));
  }
  return body + std::string(canonical);
}

TensorNaming naming_of(const ModelConfig& config, const TensorFiles& files) {
  std::vector<TensorNaming> candidates;
  if (config.draft) {
    for (const char* body : {"", "model."}) {
      for (const bool midlayer : {true, false}) {
        candidates.push_back({.body = body, .head = "", .is_draft = true, .has_midlayer = midlayer});
      }
    }
  } else {
    candidates = {{.body = "model.", .head = ""},
                  {.body = "language_model.model.", .head = "language_model."},
                  {.body = "language_model.", .head = "language_model."},
                  {.body = "model.language_model.", .head = ""}};
  }
  const std::string prefix(config.draft ? "" : kModel);
  TensorNaming best = candidates.front();
  int most = 0;
  for (const TensorNaming& naming : candidates) {
    int found = 0;
    for (const char* probe : {"norm", "layers.0.input_layernorm", "layers.0.post_attention_layernorm"}) {
      found += files.tensors().contains(naming.stored(prefix + probe) + ".weight") ? 1 : 0;
    }
    if (found > most) {
      most = found;
      best = naming;
    }
  }
  return best;
}

std::string_view explain(SkipReason reason) {
  switch (reason) {
    case SkipReason::kVision:
      return "vision tensors (vision_tower, mm_projector): only text is served";
    case SkipReason::kRotaryTable:
      return "rotary_emb.inv_freq tables: computed from the config";
    case SkipReason::kPredictLayer:
      return "tensors of multi-token prediction layers (num_hidden_layers and up)";
    case SkipReason::kTiedHead:
      return "lm_head tensor: tie_word_embeddings makes the embedding the head";
  }
  return "?";
}

std::optional<SkipReason> may_skip(const ModelConfig& config, const TensorNaming& naming,
                                   std::string_view stored) {
  if (stored.ends_with("rotary_emb.inv_freq")) return SkipReason::kRotaryTable;
  if (config.tied_embeddings && stored == naming.head + "lm_head.weight") return SkipReason::kTiedHead;
  if (config.architecture != Architecture::kDeepseekV3) return std::nullopt;
  for (const std::string_view prefix : {"", "model."}) {
    if (!stored.starts_with(prefix)) continue;
    const std::string_view rest = stored.substr(prefix.size());
    if (rest.starts_with("vision_tower.") || rest.starts_with("mm_projector.")) return SkipReason::kVision;
  }
  const std::string layers = naming.body + "layers.";
  if (stored.starts_with(layers)) {
    std::int64_t layer = -1;
    const std::string_view number = stored.substr(layers.size());
    const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), layer);
    if (code == std::errc() && end != number.data() + number.size() && *end == '.' &&
        layer >= config.layers) {
      return SkipReason::kPredictLayer;
    }
  }
  return std::nullopt;
}

}  // namespace tessera

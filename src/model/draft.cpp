#include "model/draft.h"

#include <string>

#include "base/check.h"
#include "model/dflash.h"
#include "model/draft_frame.h"
#include "model/eagle3.h"

namespace tessera {
namespace {

// "The draft (LlamaForCausalLMEagle3) has hidden_size 128, the target (DeepseekV3ForCausalLM) 256."
Error differ(const ModelConfig& draft, const ModelConfig& target, const std::string& what,
             std::int64_t drafts, std::int64_t targets) {
  return {ErrorKind::kMismatch, "draft model",
          "The draft (" + draft.architecture_name + ") has " + what + " " + std::to_string(drafts) +
              ", the target (" + target.architecture_name + ") has " + std::to_string(targets) +
              ": it was made for another model."};
}

}  // namespace

Result<void> check_draft(const ModelConfig& draft, const ModelConfig& target) {
  if (!draft.draft) {
    return Error{ErrorKind::kMismatch, "draft model",
                 draft.architecture_name +
                     " is no EAGLE-3 or DFlash draft: it does not read the hidden states of " +
                     target.architecture_name + ". Use the method draft_model for a language model."};
  }
  const DraftConfig& config = *draft.draft;
  if (draft.vocab != target.vocab) return differ(draft, target, "vocab_size", draft.vocab, target.vocab);
  if (config.target_hidden != target.hidden) {
    return differ(draft, target, "hidden states of width", config.target_hidden, target.hidden);
  }
  if (config.target_layers > 0 && config.target_layers != target.layers) {
    return differ(draft, target, "num_target_layers", config.target_layers, target.layers);
  }
  if (!config.use_aux) {
    return Error{ErrorKind::kUnsupported, "draft model",
                 draft.architecture_name +
                     " has use_aux_hidden_state false; supported are drafts that read "
                     "auxiliary hidden states."};
  }
  TS_TRY(const AuxLayers layers, aux_layers_of(draft, target));
  (void)layers;
  return {};
}

Result<std::unique_ptr<DraftModel>> load_draft(const Checkpoint& checkpoint, const ModelConfig& target_config,
                                               Model& target, Backend& backend, const DraftOptions& options) {
  const ModelConfig& config = checkpoint.config();
  TS_TRY(check_draft(config, target_config));
  // What the draft borrows must be as wide as the draft.
  const bool borrows = !checkpoint.has("embed_tokens") || !checkpoint.has("lm_head");
  if (borrows && config.hidden != target_config.hidden) {
    return differ(config, target_config, "no embedding or head of its own and hidden_size", config.hidden,
                  target_config.hidden);
  }
  TS_CHECK(
      options.limits.seqs <= options.limits.tokens && options.limits.seqs <= options.limits.decode_tokens,
      options.limits.seqs, options.limits.tokens, options.limits.decode_tokens);
  const DraftParts parts{checkpoint, target_config, target, backend, options};
  switch (config.architecture) {
    case Architecture::kEagle3Llama:
    case Architecture::kEagle3Mla:
      return load_eagle3(parts);
    case Architecture::kDFlash:
      TS_CHECK(options.limits.seqs * config.draft->block_size <= options.limits.tokens, options.limits.seqs,
               config.draft->block_size, options.limits.tokens);
      return load_dflash(parts);
    case Architecture::kDeepseekV3:
    case Architecture::kLlama:
    case Architecture::kQwen3:
      break;
  }
  TS_CHECK(false, config.architecture_name);  // check_draft
  return std::unique_ptr<DraftModel>();
}

}  // namespace tessera

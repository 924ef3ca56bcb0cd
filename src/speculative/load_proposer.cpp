#include "speculative/load_proposer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "model/draft.h"
#include "speculative/hidden_state_proposer.h"
#include "speculative/model_proposer.h"
#include "speculative/ngram_proposer.h"

namespace tessera {
namespace {

bool reads_hidden_states(const SpeculativeConfig& config) {
  return config.method == SpeculativeMethod::kEagle3 || config.method == SpeculativeMethod::kDFlash;
}

// The draft's own format: what the device computes in, unless asked otherwise.
KvFormat format_of(const SpeculativeConfig& config, const Backend& backend) {
  const bool narrow = backend.activation_dtype() == DType::kBF16;
  return config.draft_kv_format.value_or(narrow ? KvFormat::kBF16 : KvFormat::kF32);
}

Result<void> check_format(KvFormat format, const KvRowShape& shape) {
  if (kv_row_bytes(format, shape)) return {};
  return Error{
      ErrorKind::kUnsupported, "draft_kv_cache_dtype",
      "is " + std::string(name_of(format)) +
          ", which needs an MLA draft whose latent is a multiple of 128 wide. Use auto, bf16 or fp8."};
}

}  // namespace

Result<std::vector<std::int64_t>> aux_layers_for(const SpeculativeConfig& config, const ModelConfig* draft,
                                                 const ModelConfig& target) {
  if (!reads_hidden_states(config)) return std::vector<std::int64_t>{};
  TS_TRY(AuxLayers layers, aux_layers_of(*draft, target));
  return std::move(layers.after);
}

Result<std::unique_ptr<Proposer>> load_proposer(const SpeculativeConfig& config, const Checkpoint* draft,
                                                const ModelConfig& target_config, Model& target,
                                                Backend& backend, const Shard& shard,
                                                const ProposerLimits& limits) {
  TS_CHECK(config.method.has_value());
  const std::int32_t drafts = config.num_speculative_tokens;
  if (config.method == SpeculativeMethod::kNgram) {
    return std::unique_ptr<Proposer>(
        std::make_unique<NgramProposer>(NgramOptions{.max_seqs = limits.max_seqs,
                                                     .most_drafts = drafts,
                                                     .shortest = config.prompt_lookup_min,
                                                     .longest = config.prompt_lookup_max}));
  }
  const DraftCacheOptions cache{
      .format = format_of(config, backend), .blocks = limits.blocks, .block_size = limits.block_size};
  // A draft's cache is whole on each rank; its weights are split like the target's, or whole as well.
  const bool is_split = config.draft_tensor_parallel_size.value_or(shard.ranks()) > 1;
  const Shard draft_shard{.tp = is_split ? shard.tp : nullptr};
  if (config.method == SpeculativeMethod::kDraftModel) {
    const auto own_limit = static_cast<std::int32_t>(draft->config().max_positions);
    const ModelProposerOptions options{
        .max_seqs = limits.max_seqs,
        .max_tokens = limits.max_tokens,
        .max_model_len = limits.max_model_len,
        .positions = std::min(config.draft_max_model_len.value_or(limits.max_model_len), own_limit),
        .most_drafts = drafts,
        .draws_drafts = config.draws_drafts,
        .cache = cache};
    TS_TRY(
        auto model,
        load_model(*draft, backend,
                   {.limits = ModelProposer::model_limits(options), .shard = draft_shard, .on_bytes = {}}));
    TS_TRY(check_format(cache.format, model->kv_shape()));
    return std::unique_ptr<Proposer>(std::make_unique<ModelProposer>(backend, std::move(model), options));
  }
  const HiddenStateProposerOptions options{.max_seqs = limits.max_seqs,
                                           .max_tokens = limits.max_tokens,
                                           .max_model_len = limits.max_model_len,
                                           .most_drafts = drafts,
                                           .draws_drafts = config.draws_drafts,
                                           .cache = cache};
  TS_TRY(auto loaded, load_draft(*draft, target_config, target, backend,
                                 {.limits = HiddenStateProposer::draft_limits(draft->config(), options),
                                  .shard = draft_shard}));
  TS_TRY(check_format(cache.format, loaded->kv_shape()));
  return std::unique_ptr<Proposer>(
      std::make_unique<HiddenStateProposer>(backend, std::move(loaded), options));
}

}  // namespace tessera

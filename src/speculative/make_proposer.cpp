#include "speculative/make_proposer.h"

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

Shard draft_shard(const SpeculativeConfig& config, const ProposerSetup& setup) {
  if (config.draft_tensor_parallel_size == 1) return {};
  Shard shard = setup.shard;
  shard.dcp = nullptr;
  return shard;
}

std::int32_t draft_positions(const SpeculativeConfig& config, const ProposerSetup& setup) {
  const std::int64_t own = setup.draft->config().max_positions;
  const std::int64_t asked = config.draft_max_model_len.value_or(setup.max_model_len);
  return static_cast<std::int32_t>(std::min({own, asked, std::int64_t{setup.max_model_len}}));
}

DraftCacheOptions cache_options(const SpeculativeConfig& config, const ProposerSetup& setup) {
  return {.format = config.draft_kv_format.value_or(setup.automatic_format),
          .blocks = setup.blocks,
          .block_size = setup.block_size};
}

Result<std::unique_ptr<Proposer>> make_hidden_state(const SpeculativeConfig& config,
                                                    const ProposerSetup& setup) {
  const HiddenStateProposerOptions options{.max_seqs = setup.max_seqs,
                                           .max_tokens = setup.max_tokens,
                                           .max_model_len = setup.max_model_len,
                                           .most_drafts = config.num_speculative_tokens,
                                           .deferred_rows = setup.deferred_rows,
                                           .draws_drafts = config.draws_drafts,
                                           .cache = cache_options(config, setup)};
  StepLimits limits = HiddenStateProposer::draft_limits(setup.draft->config(), options);
  limits.positions = draft_positions(config, setup);
  TS_TRY(auto draft, load_draft(*setup.draft, setup.target_config, setup.target, setup.backend,
                                {.limits = limits, .shard = draft_shard(config, setup)}));
  return std::unique_ptr<Proposer>(
      std::make_unique<HiddenStateProposer>(setup.backend, std::move(draft), options));
}

Result<std::unique_ptr<Proposer>> make_language_model(const SpeculativeConfig& config,
                                                      const ProposerSetup& setup) {
  const ModelProposerOptions options{.max_seqs = setup.max_seqs,
                                     .max_tokens = setup.max_tokens,
                                     .max_model_len = setup.max_model_len,
                                     .positions = draft_positions(config, setup),
                                     .most_drafts = config.num_speculative_tokens,
                                     .deferred_rows = setup.deferred_rows,
                                     .draws_drafts = config.draws_drafts,
                                     .cache = cache_options(config, setup)};
  LoadOptions load{.limits = ModelProposer::model_limits(options), .on_bytes = {}};
  load.shard = draft_shard(config, setup);
  TS_TRY(auto model, load_model(*setup.draft, setup.backend, load));
  if (!kv_row_bytes(options.cache.format, model->kv_shape())) {
    return Error{ErrorKind::kUnsupported, "--speculative-config",
                 "draft_kv_cache_dtype " + std::string(name_of(options.cache.format)) +
                     " cannot hold the rows of " + setup.draft->config().architecture_name + "."};
  }
  return std::unique_ptr<Proposer>(std::make_unique<ModelProposer>(setup.backend, std::move(model), options));
}

}  // namespace

std::vector<std::int64_t> aux_layers_for(const SpeculativeConfig& config, const ModelConfig& target,
                                         const ModelConfig* draft) {
  if (!reads_hidden_states(config)) return {};
  const auto layers = aux_layers_of(*draft, target);
  TS_CHECK(layers.ok(), layers.error().message());  // resolve_speculation has asked
  return layers->after;
}

Result<std::unique_ptr<Proposer>> make_proposer(const SpeculativeConfig& config, const ProposerSetup& setup) {
  TS_CHECK(config.method.has_value() && config.num_speculative_tokens > 0);
  TS_CHECK((setup.draft == nullptr) == (config.method == SpeculativeMethod::kNgram));
  if (reads_hidden_states(config)) return make_hidden_state(config, setup);
  if (config.method == SpeculativeMethod::kDraftModel) return make_language_model(config, setup);
  return std::unique_ptr<Proposer>(
      std::make_unique<NgramProposer>(NgramOptions{.max_seqs = setup.max_seqs,
                                                   .most_drafts = config.num_speculative_tokens,
                                                   .shortest = config.prompt_lookup_min,
                                                   .longest = config.prompt_lookup_max}));
}

}  // namespace tessera

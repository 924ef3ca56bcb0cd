#include "engine/rank_start.h"

#include <utility>

#include "speculative/make_proposer.h"

namespace tessera {

Result<StartedRank> start_rank(RankDevice device, const RankRecipe& recipe) {
  const RunnerOptions& options = recipe.runner;
  Backend& backend = *device.backend;
  MemoryLedger ledger(backend);
  LoadOptions load{.limits = ModelRunner::limits_of(options),
                   .shard = recipe.shard,
                   .on_bytes = recipe.on_bytes,
                   .on_weight = [&](ModuleClass module_class, std::int64_t bytes) {
                     ledger.add_weight(module_class, bytes);
                   }};
  const ModelConfig& config = recipe.target.config();
  if (recipe.speculation != nullptr) {
    load.aux_layers = aux_layers_for(*recipe.speculation, config,
                                     recipe.draft != nullptr ? &recipe.draft->config() : nullptr);
  }
  TS_TRY(auto model, load_model(recipe.target, backend, load));
  ledger.target_is_loaded();

  StartedRank started;
  TS_TRY(started.runner, ModelRunner::create(std::move(device), std::move(model), options));
  ledger.runner_is_made(started.runner->cache());
  if (recipe.speculation != nullptr) {
    TS_TRY(auto proposer, make_proposer(*recipe.speculation, {.backend = backend,
                                                              .target = started.runner->model(),
                                                              .target_config = config,
                                                              .draft = recipe.draft,
                                                              .shard = recipe.shard,
                                                              .max_seqs = options.max_num_seqs,
                                                              .max_tokens = options.max_num_batched_tokens,
                                                              .max_model_len = options.max_model_len,
                                                              .blocks = options.kv_blocks * options.dcp_ranks,
                                                              .block_size = options.block_size,
                                                              .automatic_format = recipe.automatic_format}));
    ledger.draft_is_loaded(proposer->cache());
    started.draft_lookahead = proposer->lookahead(options.most_drafts);
    started.runner->set_proposer(std::move(proposer));
  }
  started.memory = ledger.memory();
  return started;
}

SchedulerOptions scheduler_options(const RunnerOptions& runner, std::int64_t vocab) {
  SchedulerOptions options;
  options.max_num_seqs = runner.max_num_seqs;
  options.max_num_batched_tokens = runner.max_num_batched_tokens;
  options.max_model_len = runner.max_model_len;
  options.block_size = runner.block_size;
  options.kv_blocks = runner.kv_blocks;
  options.dcp_ranks = runner.dcp_ranks;
  options.most_drafts = runner.most_drafts;
  options.vocab = static_cast<std::int32_t>(vocab);
  return options;
}

}  // namespace tessera

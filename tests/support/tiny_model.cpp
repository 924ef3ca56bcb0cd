#include "support/tiny_model.h"

#include <chrono>
#include <optional>

#include "backend/cpu/cpu_backend.h"
#include "checkpoint/checkpoint.h"
#include "comm/thread_communicator.h"
#include "engine/rank_group.h"
#include "model/model.h"
#include "speculative/make_proposer.h"
#include "support/golden.h"

namespace tessera::test {
namespace {

constexpr std::chrono::milliseconds kDeadline{60'000};

}  // namespace

TinyModel load_tiny(const TinyOptions& tiny) {
  const auto checkpoint =
      Checkpoint::open(tiny.folder.empty() ? source_path("models/tessera-tiny") : tiny.folder);
  TS_CHECK(checkpoint.ok(), checkpoint.error().message());
  TinyModel result;
  result.options = {.max_num_seqs = 4,
                    .max_num_batched_tokens = 2048,
                    .max_model_len = tiny.max_model_len,
                    .block_size = tiny.block_size,
                    .kv_blocks = tiny.kv_blocks > 0
                                     ? tiny.kv_blocks
                                     : (tiny.max_model_len + tiny.block_size - 1) / tiny.block_size + 3,
                    .dcp_ranks = tiny.dcp_ranks,
                    .gather_rows = tiny.gather_rows,
                    .kv_format = tiny.kv_format,
                    .batch_invariant = tiny.batch_invariant,
                    .always_logits = tiny.always_logits,
                    .enforce_eager = tiny.enforce_eager};
  std::optional<SpeculativeConfig> speculation;
  std::optional<Checkpoint> draft;
  if (!tiny.speculative_config.empty()) {
    auto config = parse_speculative_config(tiny.speculative_config);
    TS_CHECK(config.ok(), config.error().message());
    if (!config->model.empty()) {
      auto opened = Checkpoint::open(source_path("models/" + config->model));
      TS_CHECK(opened.ok(), opened.error().message());
      draft = *std::move(opened);
    }
    auto resolved = resolve_speculation(*std::move(config), checkpoint->config(),
                                        draft ? &draft->config() : nullptr, tiny.ranks);
    TS_CHECK(resolved.ok(), resolved.error().message());
    speculation = *std::move(resolved);
    result.options.most_drafts = speculation->num_speculative_tokens;
  }
  const auto make = [&](Communicator* tp) -> Result<std::unique_ptr<StepRunner>> {
    RankDevice device{.backend = tiny.make_backend ? tiny.make_backend()
                                                   : make_cpu_backend({.threads = tp ? 1 : 0})};
    RunnerOptions options = result.options;
    if (tiny.dcp_ranks > 1) {
      device.dcp = tp->split(tp->rank() / tiny.dcp_ranks, "dcp");
      options.dcp_rank = device.dcp->rank();
    }
    LoadOptions load{.limits = ModelRunner::limits_of(options),
                     .shard = {.tp = tp,
                               .expert_parallel = tiny.expert_parallel,
                               .dcp = device.dcp.get(),
                               .exchange = tiny.exchange},
                     .on_bytes = {}};
    const ModelConfig* draft_config = draft ? &draft->config() : nullptr;
    if (speculation) load.aux_layers = aux_layers_for(*speculation, checkpoint->config(), draft_config);
    TS_TRY(auto model, load_model(*checkpoint, *device.backend, load));
    TS_TRY(auto runner, ModelRunner::create(std::move(device), std::move(model), options));
    if (speculation) {
      TS_TRY(auto proposer, make_proposer(*speculation, {.backend = runner->backend(),
                                                         .target = runner->model(),
                                                         .target_config = checkpoint->config(),
                                                         .draft = draft ? &*draft : nullptr,
                                                         .shard = load.shard,
                                                         .max_seqs = options.max_num_seqs,
                                                         .max_tokens = options.max_num_batched_tokens,
                                                         .max_model_len = options.max_model_len,
                                                         .blocks = options.kv_blocks * options.dcp_ranks,
                                                         .block_size = options.block_size}));
      if (tp == nullptr || tp->rank() == 0) result.draft_lookahead = proposer->lookahead(options.most_drafts);
      runner->set_proposer(std::move(proposer));
    }
    if (tp == nullptr || tp->rank() == 0) result.first = runner.get();
    return std::unique_ptr<StepRunner>(std::move(runner));
  };
  if (tiny.ranks == 1) {
    auto runner = make(nullptr);
    TS_CHECK(runner.ok(), runner.error().message());
    result.runner = *std::move(runner);
  } else {
    auto group = RankGroup::create(
        make_thread_communicators(tiny.ranks, "tp", kDeadline), [&](Communicator& tp) { return make(&tp); },
        kDeadline);
    TS_CHECK(group.ok(), group.error().message());
    result.runner = *std::move(group);
  }
  return result;
}

}  // namespace tessera::test

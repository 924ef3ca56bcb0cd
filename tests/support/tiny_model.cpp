#include "support/tiny_model.h"

#include <chrono>

#include "backend/cpu/cpu_backend.h"
#include "checkpoint/checkpoint.h"
#include "comm/thread_communicator.h"
#include "engine/rank_group.h"
#include "model/model.h"
#include "support/golden.h"

namespace tessera::test {
namespace {

constexpr std::int32_t kMaxModelLen = 2048;
constexpr std::chrono::milliseconds kDeadline{60'000};

}  // namespace

TinyModel load_tiny(const TinyOptions& tiny) {
  const auto checkpoint =
      Checkpoint::open(tiny.folder.empty() ? source_path("models/tessera-tiny") : tiny.folder);
  TS_CHECK(checkpoint.ok(), checkpoint.error().message());
  TinyModel result;
  result.options = {.max_num_seqs = 4,
                    .max_num_batched_tokens = 2048,
                    .max_model_len = kMaxModelLen,
                    .block_size = tiny.block_size,
                    .kv_blocks = tiny.kv_blocks > 0
                                     ? tiny.kv_blocks
                                     : (kMaxModelLen + tiny.block_size - 1) / tiny.block_size + 3,
                    .dcp_ranks = tiny.dcp_ranks,
                    .gather_rows = tiny.gather_rows,
                    .kv_format = tiny.kv_format,
                    .batch_invariant = tiny.batch_invariant};
  const auto make = [&](Communicator* tp) -> Result<std::unique_ptr<StepRunner>> {
    RankDevice device{.backend = tiny.make_backend ? tiny.make_backend()
                                                   : make_cpu_backend({.threads = tp ? 1 : 0})};
    RunnerOptions options = result.options;
    if (tiny.dcp_ranks > 1) {
      device.dcp = tp->split(tp->rank() / tiny.dcp_ranks, "dcp");
      options.dcp_rank = device.dcp->rank();
    }
    const LoadOptions load{.limits = ModelRunner::limits_of(options),
                           .shard = {.tp = tp,
                                     .expert_parallel = tiny.expert_parallel,
                                     .dcp = device.dcp.get(),
                                     .exchange = tiny.exchange},
                           .on_bytes = {}};
    TS_TRY(auto model, load_model(*checkpoint, *device.backend, load));
    TS_TRY(auto runner, ModelRunner::create(std::move(device), std::move(model), options));
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

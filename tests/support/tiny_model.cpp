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

class OwningRunner final : public StepRunner {
 public:
  OwningRunner(std::unique_ptr<Backend> backend, std::unique_ptr<ModelRunner> runner)
      : backend_(std::move(backend)), runner_(std::move(runner)) {}
  StepResult& step(const StepPlan& plan) override { return runner_->step(plan); }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ModelRunner> runner_;
};

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
                    .kv_blocks = (kMaxModelLen + tiny.block_size - 1) / tiny.block_size + 3,
                    .kv_format = tiny.kv_format,
                    .batch_invariant = tiny.batch_invariant};
  const auto make = [&](Communicator* tp) -> Result<std::unique_ptr<StepRunner>> {
    auto backend = make_cpu_backend({.threads = tp ? 1 : 0});
    const LoadOptions load{.limits = ModelRunner::limits_of(result.options),
                           .shard = {.tp = tp, .expert_parallel = tiny.expert_parallel},
                           .on_bytes = {}};
    TS_TRY(auto model, load_model(*checkpoint, *backend, load));
    TS_TRY(auto runner, ModelRunner::create(*backend, std::move(model), result.options));
    if (tp == nullptr || tp->rank() == 0) result.first = runner.get();
    return std::unique_ptr<StepRunner>(std::make_unique<OwningRunner>(std::move(backend), std::move(runner)));
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

#include "support/draft_rig.h"

#include <chrono>
#include <thread>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "comm/thread_communicator.h"
#include "support/golden.h"

namespace tessera::test {

Checkpoint open_model(const std::string& name) {
  auto checkpoint = Checkpoint::open(source_path("models/" + name));
  TS_CHECK(checkpoint.ok(), checkpoint.error().message());
  return *std::move(checkpoint);
}

DraftRig load_draft_rig(const std::string& draft, const StepLimits& target_limits,
                        const StepLimits& draft_limits, Communicator* tp, bool whole_draft) {
  DraftRig rig{.target_checkpoint = open_model("tessera-tiny"),
               .draft_checkpoint = open_model("tessera-tiny-" + draft),
               .backend = make_cpu_backend({.threads = 1}),
               .target = nullptr,
               .draft = nullptr};
  const auto aux = aux_layers_of(rig.draft_checkpoint.config(), rig.target_checkpoint.config());
  TS_CHECK(aux.ok(), aux.error().message());
  auto target =
      load_model(rig.target_checkpoint, *rig.backend,
                 {.limits = target_limits, .shard = {.tp = tp}, .on_bytes = {}, .aux_layers = aux->after});
  TS_CHECK(target.ok(), target.error().message());
  rig.target = *std::move(target);
  auto loaded = load_draft(rig.draft_checkpoint, rig.target_checkpoint.config(), *rig.target, *rig.backend,
                           {.limits = draft_limits, .shard = {.tp = whole_draft ? nullptr : tp}});
  TS_CHECK(loaded.ok(), loaded.error().message());
  rig.draft = *std::move(loaded);
  return rig;
}

void on_ranks(int ranks, const std::function<void(Communicator* tp)>& body) {
  if (ranks == 1) {
    body(nullptr);
    return;
  }
  auto communicators = make_thread_communicators(ranks, "tp", std::chrono::milliseconds(60'000));
  std::vector<std::jthread> threads;
  for (auto& communicator : communicators) {
    threads.emplace_back([&body, tp = communicator.get()] { body(tp); });
  }
  threads.clear();  // joins
}

}  // namespace tessera::test

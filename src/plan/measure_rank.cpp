#include "plan/measure_rank.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/rank_start.h"
#include "plan/measuring_backend.h"

namespace tessera {
namespace {

// A rank's place without the other ranks.
class PlaceOnly final : public Communicator {
 public:
  PlaceOnly(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "a plan of " + std::to_string(size_) + " ranks"; }

  void all_reduce(void*, DType, std::int64_t) override { nobody(); }
  void all_gather(const void*, void*, std::size_t) override { nobody(); }
  void reduce_scatter(const void*, void*, DType, std::int64_t) override { nobody(); }
  void all_to_all(const void*, void*, std::size_t) override { nobody(); }
  void broadcast(void*, std::size_t, int) override { nobody(); }
  void barrier() override { nobody(); }
  std::unique_ptr<Communicator> split(int, const std::string&) override { nobody(); }

 private:
  [[noreturn]] static void nobody() {
    TS_CHECK(false && "a plan has no other ranks to talk to");
    std::abort();
  }
  int rank_;
  int size_;
};

}  // namespace

Result<RankMemory> measure_rank(const Checkpoint& outline, const DeviceModel& device,
                                const RunnerOptions& options, const RankPlace& place,
                                const PlannedDraft* draft) {
  RankDevice rank{.backend = make_measuring_backend(device)};
  PlaceOnly tp(place.rank, place.ranks);
  RankRecipe recipe{.target = outline, .runner = options};
  recipe.runner.kv_blocks = 0;  // pools are planned apart
  recipe.runner.dcp_ranks = place.context_ranks;
  if (place.context_ranks > 1) {
    recipe.runner.dcp_rank = place.rank % place.context_ranks;
    rank.dcp = std::make_unique<PlaceOnly>(recipe.runner.dcp_rank, place.context_ranks);
  }
  recipe.shard = {
      .tp = place.ranks > 1 ? &tp : nullptr, .expert_parallel = place.expert_parallel, .dcp = rank.dcp.get()};
  if (draft != nullptr) {
    recipe.speculation = draft->config;
    recipe.draft = draft->outline;
    recipe.automatic_format = draft->automatic_format;
  }
  TS_TRY(const StartedRank started, start_rank(std::move(rank), recipe));
  return started.memory;
}

Result<RankMemory> measure_ranks(const Checkpoint& outline, const DeviceModel& device,
                                 const RunnerOptions& options, RankPlace place, const PlannedDraft* draft) {
  RankMemory most;
  const auto raise = [](std::int64_t& to, std::int64_t bytes) { to = std::max(to, bytes); };
  // Shares of the vocabulary are largest on the first rank, of whole experts on the last (model/shard.h).
  for (place.rank = 0; place.rank < place.ranks; place.rank += std::max(1, place.ranks - 1)) {
    TS_TRY(const RankMemory one, measure_rank(outline, device, options, place, draft));
    for (std::size_t c = 0; c < most.weights.size(); ++c) raise(most.weights[c], one.weights[c]);
    raise(most.rope_tables, one.rope_tables);
    raise(most.activations, one.activations);
    raise(most.scratch, one.scratch);
    raise(most.inputs, one.inputs);
    raise(most.draft_weights, one.draft_weights);
    raise(most.draft_scratch, one.draft_scratch);
    raise(most.kv_block, one.kv_block);
    raise(most.draft_kv_block, one.draft_kv_block);
  }
  return most;
}

RankMemory with_caches(RankMemory memory, std::int64_t blocks, int context_ranks) {
  memory.kv_cache = blocks * memory.kv_block;
  memory.draft_cache = blocks * context_ranks * memory.draft_kv_block;
  return memory;
}

std::int64_t block_cost(const RankMemory& memory, int context_ranks) {
  return memory.kv_block + context_ranks * memory.draft_kv_block;
}

}  // namespace tessera

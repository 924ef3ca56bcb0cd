#include "plan/rank_memory.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "base/check.h"
#include "model/aux_layers.h"
#include "model/draft.h"
#include "plan/measuring_backend.h"
#include "speculative/hidden_state_proposer.h"

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

std::int64_t RankMemory::weight_sum() const {
  return std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
}

Result<RankMemory> measure_rank(const Checkpoint& outline, const DeviceModel& device,
                                const RunnerOptions& options, const RankPlace& place) {
  RankMemory memory;
  Measured measured;
  RankDevice rank{.backend = make_measuring_backend(device, measured)};
  PlaceOnly tp(place.rank, place.ranks);
  RunnerOptions runner_options = options;
  runner_options.kv_blocks = 0;  // the pool is planned apart
  runner_options.dcp_ranks = place.context_ranks;
  if (place.context_ranks > 1) {
    runner_options.dcp_rank = place.rank % place.context_ranks;
    rank.dcp = std::make_unique<PlaceOnly>(runner_options.dcp_rank, place.context_ranks);
  }
  const LoadOptions load{.limits = ModelRunner::limits_of(runner_options),
                         .shard = {.tp = place.ranks > 1 ? &tp : nullptr,
                                   .expert_parallel = place.expert_parallel,
                                   .dcp = rank.dcp.get(),
                                   .exchange = place.exchange},
                         .on_bytes = {},
                         .on_weight = [&](ModuleClass module_class, std::int64_t bytes) {
                           memory.weights[static_cast<std::size_t>(module_class)] += bytes;
                         }};
  TS_TRY(auto model, load_model(outline, *rank.backend, load));
  TS_CHECK(measured.weights == memory.weight_sum(), measured.weights, memory.weight_sum());
  memory.rope_tables = measured.rope_tables;
  memory.activations = std::exchange(measured.buffers, 0);
  memory.scratch = measured.reserved;
  TS_TRY(memory.kv_block, ModelRunner::kv_bytes(*model, options.kv_format, options.block_size));
  TS_TRY(const auto runner, ModelRunner::create(std::move(rank), std::move(model), runner_options));
  memory.inputs = measured.buffers;
  return memory;
}

Result<RankMemory> measure_ranks(const Checkpoint& outline, const DeviceModel& device,
                                 const RunnerOptions& options, RankPlace place) {
  RankMemory most;
  // Shares of the vocabulary are largest on the first rank, of whole experts on the last (model/shard.h).
  for (place.rank = 0; place.rank < place.ranks; place.rank += std::max(1, place.ranks - 1)) {
    TS_TRY(const RankMemory one, measure_rank(outline, device, options, place));
    for (std::size_t c = 0; c < most.weights.size(); ++c)
      most.weights[c] = std::max(most.weights[c], one.weights[c]);
    most.rope_tables = std::max(most.rope_tables, one.rope_tables);
    most.activations = std::max(most.activations, one.activations);
    most.scratch = std::max(most.scratch, one.scratch);
    most.inputs = std::max(most.inputs, one.inputs);
    most.kv_block = std::max(most.kv_block, one.kv_block);
  }
  return most;
}

Result<DraftMemory> measure_draft(const Checkpoint& target, const Checkpoint& draft,
                                  const DeviceModel& device, const RunnerOptions& options,
                                  const RankPlace& place, const DraftChoice& choice) {
  Measured measured;
  const auto backend = make_measuring_backend(device, measured);
  PlaceOnly tp(place.rank, place.ranks);
  const Shard shard{.tp = place.ranks > 1 ? &tp : nullptr, .expert_parallel = place.expert_parallel};
  TS_TRY(const AuxLayers aux, aux_layers_of(draft.config(), target.config()));
  LoadOptions load{.limits = ModelRunner::limits_of(options), .shard = shard, .on_bytes = {}};
  load.aux_layers = aux.after;
  TS_TRY(auto model, load_model(target, *backend, load));

  const Measured before = measured;
  const HiddenStateProposerOptions proposing{
      .max_seqs = options.max_num_seqs,
      .max_tokens = options.max_num_batched_tokens,
      .max_model_len = options.max_model_len,
      .most_drafts = choice.tokens,
      .cache = {.format = choice.kv_format, .blocks = 0, .block_size = options.block_size}};
  TS_TRY(auto loaded, load_draft(draft, target.config(), *model, *backend,
                                 {.limits = HiddenStateProposer::draft_limits(draft.config(), proposing),
                                  .shard = {.tp = shard.tp}}));
  const auto row = kv_row_bytes(choice.kv_format, loaded->kv_shape());
  if (!row) {
    return Error{
        ErrorKind::kUnsupported, "--draft-kv-cache-dtype",
        "is " + std::string(name_of(choice.kv_format)) +
            ", which needs an MLA draft whose latent is a multiple of 128 wide. Use auto, bf16 or fp8."};
  }
  DraftMemory memory;
  memory.kv_block = *row * loaded->layers() * options.block_size;
  const HiddenStateProposer proposer(*backend, std::move(loaded), proposing);
  memory.weights = measured.weights - before.weights;
  memory.scratch = measured.rope_tables - before.rope_tables + measured.buffers - before.buffers +
                   measured.reserved - before.reserved;
  memory.hidden_states = options.max_num_batched_tokens * static_cast<std::int64_t>(aux.after.size()) *
                         target.config().hidden * bytes_of(device.activation);
  return memory;
}

}  // namespace tessera

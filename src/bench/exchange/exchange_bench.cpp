#include "bench/exchange/exchange_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "bench/report/process_time.h"
#include "bench/report/statistics.h"
#include "checkpoint/checkpoint.h"
#include "comm/thread_communicator.h"
#include "comm/timed_communicator.h"
#include "engine/rank_group.h"
#include "engine/rank_start.h"
#include "engine/scheduler.h"
#include "model/context_exchange.h"

namespace tessera {
namespace {

using bench::median;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kDeadline{60'000};
constexpr std::int32_t kBlockSize = 64;

class NoSink final : public RequestSink {
 public:
  void on_output(const RequestOutput&) override {}
};

// Ranks of one layout with sequences that decode, ready to take steps.
class Layout {
 public:
  struct Choice {
    int context_ranks = 1;
    bool elastic = false;
    std::int32_t context = 0;
  };

  static Result<std::unique_ptr<Layout>> start(const Checkpoint& checkpoint,
                                               const ExchangeBenchOptions& options, const Choice& choice) {
    std::unique_ptr<Layout> layout(new Layout(checkpoint.config(), options, choice));
    auto communicators = make_thread_communicators(options.ranks, "tp", kDeadline);
    for (auto& one : communicators) {
      auto times = layout->tp_times_[static_cast<std::size_t>(one->rank())];
      one = std::make_unique<TimedCommunicator>(std::move(one), std::move(times));
    }
    TS_TRY(layout->ranks_,
           RankGroup::create(
               std::move(communicators), [&](Communicator& tp) { return layout->start_one(checkpoint, tp); },
               kDeadline));
    TS_TRY(layout->prefill());
    return layout;
  }

  struct Turn {
    double clock = 0;  // us
    double cpu = 0;
  };
  // Microseconds of each of `count` steps are added to the samples.
  Turn take_steps(std::int32_t count) {
    Turn sum;
    for (std::int32_t i = 0; i < count; ++i) {
      const double tp = tp_times_[0]->seconds();
      const double dcp = dcp_times_[0]->seconds();
      const double cpu = bench::process_seconds();
      const auto begin = Clock::now();
      step();
      const double time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      steps_.push_back(time);
      cpu_.push_back((bench::process_seconds() - cpu) * 1e6);
      tp_.push_back((tp_times_[0]->seconds() - tp) * 1e6);
      dcp_.push_back((dcp_times_[0]->seconds() - dcp) * 1e6);
      sum.clock += time;
      sum.cpu += cpu_.back();
    }
    return sum;
  }

  ExchangeRow row(const MeasuredExchange& alone) const {
    ExchangeRow row{.context_ranks = choice_.context_ranks,
                    .elastic = choice_.elastic,
                    .context = choice_.context,
                    .step = median(steps_),
                    .cpu = median(cpu_),
                    .tp_collectives = median(tp_),
                    .dcp_collectives = median(dcp_)};
    if (choice_.context_ranks == 1 || choice_.elastic) return row;
    row.exchange_a_layer = std::min(alone.all_to_all_us, alone.reduce_scatter_us);
    const ContextExchange::Sizes sizes = exchange_sizes();
    const auto others = static_cast<double>(choice_.context_ranks - 1);
    row.bytes_a_layer = others * static_cast<double>(sizes.tokens * sizes.heads) *
                        static_cast<double>((sizes.key_dim + sizes.value_dim) * bytes_of(sizes.dtype) + 4);
    return row;
  }
  MeasuredExchange alone() const { return alone_; }

 private:
  using Times = std::vector<std::shared_ptr<CollectiveTimes>>;  // [ranks]
  static Times no_times(int ranks) {
    Times times;
    for (int r = 0; r < ranks; ++r) times.push_back(std::make_shared<CollectiveTimes>());
    return times;
  }

  Layout(const ModelConfig& config, const ExchangeBenchOptions& options, const Choice& choice)
      : config_(config),
        choice_(choice),
        sequences_(options.sequences),
        ranks_in_tp_(options.ranks),
        tp_times_(no_times(options.ranks)),
        dcp_times_(no_times(options.ranks)) {
    const std::int32_t tokens =
        choice.context + 10 +
        (options.rounds + (choice.context == options.elastic_context ? options.elastic_rounds : 0)) *
            options.steps;
    const std::int32_t blocks = (tokens + kBlockSize - 1) / kBlockSize * options.sequences;
    runner_ = {.max_num_seqs = options.sequences,
               .max_num_batched_tokens = std::max(512, options.sequences),
               .max_model_len = tokens,
               .block_size = kBlockSize,
               .kv_blocks = choice.elastic || choice.context_ranks == 1
                                ? blocks
                                : blocks / choice.context_ranks + options.sequences,
               .dcp_ranks = choice.context_ranks};
    SchedulerOptions scheduler = scheduler_options(runner_, config.vocab);
    scheduler.replicate_up_to = choice.elastic ? tokens : 0;
    scheduler.prefix_caching = false;
    scheduler_.emplace(scheduler);
  }

  ContextExchange::Sizes exchange_sizes() const {
    return {.tokens = sequences_,
            .heads = config_.heads / ranks_in_tp_,
            .key_dim = config_.mla.kv_lora_rank + config_.mla.rope_dim,
            .value_dim = config_.mla.kv_lora_rank,
            .dtype = DType::kF32};
  }

  Result<std::unique_ptr<StepRunner>> start_one(const Checkpoint& checkpoint, Communicator& tp) {
    RankDevice device{.backend = make_cpu_backend({.threads = 1})};
    RankRecipe recipe{.target = checkpoint};
    recipe.runner = runner_;
    recipe.shard = {.tp = &tp};
    if (choice_.context_ranks > 1) {
      device.dcp = std::make_unique<TimedCommunicator>(tp.split(tp.rank() / choice_.context_ranks, "dcp"),
                                                       dcp_times_[static_cast<std::size_t>(tp.rank())]);
      const MeasuredExchange measured = measure_exchange(*device.backend, *device.dcp, exchange_sizes());
      if (tp.rank() == 0) alone_ = measured;
      recipe.runner.dcp_rank = device.dcp->rank();
      recipe.shard.dcp = device.dcp.get();
      recipe.shard.exchange = measured.faster;
    }
    TS_TRY(StartedRank started, start_rank(std::move(device), recipe));
    return std::unique_ptr<StepRunner>(std::move(started.runner));
  }

  Result<void> prefill() {
    const SequenceLimits limits = sequence_limits(scheduler_->options(), {});
    for (std::int32_t i = 0; i < sequences_; ++i) {
      GenerationRequest request;
      for (std::int32_t t = 0; t < choice_.context; ++t)
        request.prompt.push_back(static_cast<std::int32_t>((t * 7919 + i * 104729) % config_.vocab));
      request.sampling.temperature = 0;
      request.sampling.max_tokens = runner_.max_model_len - choice_.context - 1;
      request.sampling.ignore_eos = true;
      TS_TRY(auto sequence, prepare_sequence({static_cast<std::uint64_t>(i + 1)}, std::move(request),
                                             std::make_shared<NoSink>(), 1, limits));
      scheduler_->add(std::move(sequence));
    }
    while (scheduler_->decode_load(0).sequences < sequences_) step();
    step();  // the first step of a full batch, and whatever it warms up
    return {};
  }

  void step() {
    const StepPlan& plan = scheduler_->plan_step({});
    TS_CHECK(!plan.work.empty(), scheduler_->waiting(), scheduler_->running());
    (void)scheduler_->apply(ranks_->step(plan), {});
  }

  ModelConfig config_;
  Choice choice_;
  std::int32_t sequences_;
  int ranks_in_tp_;
  Times tp_times_, dcp_times_;  // a rank's thread writes its own while a step runs
  RunnerOptions runner_;
  std::optional<Scheduler> scheduler_;
  MeasuredExchange alone_;
  std::unique_ptr<RankGroup> ranks_;
  std::vector<double> steps_, cpu_, tp_, dcp_;
};

}  // namespace

Result<ExchangeReport> measure_exchanges(const ExchangeBenchOptions& options) {
  TS_TRY(const Checkpoint checkpoint, Checkpoint::open(options.model));
  ExchangeReport report{.options = options, .layers = checkpoint.config().layers};
  TS_TRY(check_shardable(checkpoint, options.ranks, false));
  std::vector<std::unique_ptr<Layout>> layouts;
  for (const int context_ranks : options.context_ranks) {
    TS_TRY(check_context_shardable(checkpoint, options.ranks, context_ranks));
    TS_TRY(layouts.emplace_back(),
           Layout::start(checkpoint, options,
                         {.context_ranks = context_ranks, .elastic = false, .context = options.context}));
  }
  const int widest = *std::ranges::max_element(options.context_ranks);
  for (const int context_ranks : {1, widest}) {
    TS_TRY(
        layouts.emplace_back(),
        Layout::start(checkpoint, options,
                      {.context_ranks = context_ranks, .elastic = true, .context = options.elastic_context}));
  }
  for (std::int32_t round = 0; round < options.rounds; ++round) {
    for (const auto& layout : layouts) layout->take_steps(options.steps);
    options.on_round(round + 1, options.rounds + options.elastic_rounds);
  }
  // Each pair in both orders: who comes second finds warmer caches, and clocks that have sunk.
  std::vector<double> clocks, cpus;
  Layout& alone = **(layouts.end() - 2);
  Layout& elastic = *layouts.back();
  for (std::int32_t round = 0; round < options.elastic_rounds; ++round) {
    Layout::Turn a, b;
    if (round % 2 == 0) a = alone.take_steps(options.steps);
    b = elastic.take_steps(options.steps);
    if (round % 2 == 1) a = alone.take_steps(options.steps);
    clocks.push_back(b.clock / a.clock);
    cpus.push_back(b.cpu / a.cpu);
    options.on_round(options.rounds + round + 1, options.rounds + options.elastic_rounds);
  }
  for (const auto& layout : layouts) report.rows.push_back(layout->row(layout->alone()));
  report.elastic_quotient = median(clocks);
  report.elastic_cpu_quotient = median(cpus);
  return report;
}

}  // namespace tessera

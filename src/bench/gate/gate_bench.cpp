#include "bench/gate/gate_bench.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "bench/report/process_time.h"
#include "bench/report/statistics.h"
#include "checkpoint/checkpoint.h"
#include "engine/rank_start.h"
#include "engine/scheduler.h"
#include "speculative/gate.h"
#include "speculative/make_proposer.h"

namespace tessera {
namespace {

constexpr std::int32_t kBlockSize = 64;

class NullSink final : public RequestSink {
 public:
  void on_output(const RequestOutput&) override {}
};

class GateBench {
 public:
  GateBench(const GateBenchOptions& options, const SchedulerOptions& scheduler_options, StartedRank rank)
      : options_(options),
        limits_(sequence_limits(scheduler_options, {})),
        scheduler_(scheduler_options),
        runner_(std::move(rank.runner)),
        gate_({.most_drafts = scheduler_options.most_drafts}) {
    runner_->set_phase_tap([this](StepPhase phase) {
      const double now = seconds();
      phases_[static_cast<std::size_t>(phase)] += now - phase_began_;
      phase_began_ = now;
    });
    drafts_at_.assign(static_cast<std::size_t>(scheduler_options.most_drafts), 0);
    accepted_at_ = drafts_at_;
  }

  GateCell measure(std::int32_t sequences, std::int32_t context) {
    GateCell cell{.sequences = sequences, .context = context};
    std::array<std::vector<double>, kGateModes> rates;
    std::vector<std::int64_t> chosen(static_cast<std::size_t>(scheduler_.options().most_drafts) + 1);
    double tokens = 0;
    double steps = 0;
    for (std::int32_t round = 0; round < options_.warm_up + options_.rounds; ++round) {
      for (std::size_t turn = 0; turn < kGateModes; ++turn) {
        const auto mode = static_cast<GateMode>((turn + static_cast<std::size_t>(round)) % kGateModes);
        const Turn result = run(mode, sequences, context, round);
        if (round < options_.warm_up || result.seconds == 0) continue;
        rates[static_cast<std::size_t>(mode)].push_back(result.tokens / result.seconds);
        if (mode == GateMode::kAlways) {
          tokens += result.tokens;
          steps += result.steps * sequences;
        } else if (mode == GateMode::kAdaptive) {
          for (std::size_t k = 0; k < chosen.size(); ++k) chosen[k] += result.chosen[k];
        }
      }
    }
    for (std::size_t mode = 0; mode < kGateModes; ++mode) cell.rate[mode] = bench::median(rates[mode]);
    std::array<std::vector<double>, 2> shares;  // of never, of always
    for (std::size_t mode = 0; mode < shares.size(); ++mode) {
      for (std::size_t round = 0; round < std::min(rates[2].size(), rates[mode].size()); ++round)
        shares[mode].push_back(rates[2][round] / rates[mode][round]);
    }
    cell.adaptive_share = std::min(bench::median(shares[0]), bench::median(shares[1]));
    cell.chosen = static_cast<std::int32_t>(std::ranges::max_element(chosen) - chosen.begin());
    cell.tokens_per_step = steps > 0 ? tokens / steps : 0;
    return cell;
  }

  StepSplit split() const {
    const double per_step = split_steps_ > 0 ? 1e6 / split_steps_ : 0;
    return {.verify = split_.verify * per_step,
            .sample = split_.sample * per_step,
            .draft = split_.draft * per_step,
            .host = split_.host * per_step};
  }
  std::vector<double> accepted_at() const {
    std::vector<double> shares;
    for (std::size_t i = 0; i < drafts_at_.size(); ++i)
      shares.push_back(drafts_at_[i] > 0 ? accepted_at_[i] / drafts_at_[i] : 0);
    return shares;
  }

 private:
  struct Turn {
    double tokens = 0;  // that decode steps of all sequences together gained
    double seconds = 0;
    double steps = 0;
    std::vector<std::int64_t> chosen;  // steps by draft length
  };

  double seconds() const {
    if (!options_.cpu_time)
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    return bench::process_seconds();
  }

  // The same prompts for each mode of a round.
  void submit(std::int32_t sequences, std::int32_t context, std::int32_t round) {
    for (std::int32_t i = 0; i < sequences; ++i) {
      GenerationRequest request;
      const std::size_t first = static_cast<std::size_t>(round * sequences + i) * 211;
      for (std::size_t t = 0; t < static_cast<std::size_t>(context); ++t)
        request.prompt.push_back(options_.text[(first + t) % options_.text.size()]);
      request.sampling.temperature = 0;
      request.sampling.max_tokens = options_.output;
      request.sampling.ignore_eos = true;
      auto sequence =
          prepare_sequence({++last_id_}, std::move(request), std::make_shared<NullSink>(), 1, limits_);
      TS_CHECK(sequence.ok(), sequence.error().message());
      scheduler_.add(*std::move(sequence));
    }
  }

  Turn run(GateMode mode, std::int32_t sequences, std::int32_t context, std::int32_t round) {
    submit(sequences, context, round);
    Turn turn;
    turn.chosen.assign(static_cast<std::size_t>(scheduler_.options().most_drafts) + 1, 0);
    std::int32_t verifying = 0;
    while (scheduler_.has_work()) {
      const double began = seconds();
      const DecodeLoad load = scheduler_.decode_load(0);
      const StepSituation situation{
          .batch = load.sequences, .draftable = load.draftable, .context = load.context};
      const std::int32_t drafts = mode == GateMode::kNever    ? 0
                                  : mode == GateMode::kAlways ? scheduler_.options().most_drafts
                                                              : gate_.decide(situation).drafts;
      const StepPlan& plan = scheduler_.plan_step({}, {.drafts = drafts});
      const bool is_whole = static_cast<std::int32_t>(plan.work.size()) == sequences &&
                            std::ranges::all_of(plan.work, &SequenceWork::is_decode);
      phases_ = {};
      const double step_began = phase_began_ = seconds();
      StepResult& result = runner_->step(plan);
      const double step_ended = seconds();
      std::int32_t gained = 0;
      for (const std::int32_t g : result.gained) gained += g;
      scheduler_.apply(result, {});
      scheduler_.take_drafts(result);
      scheduler_.forget_ended();
      const double took = seconds() - began;
      const Scheduler::Verified& verified = scheduler_.verified();
      if (mode == GateMode::kAdaptive) {
        const bool is_steady = verified.is_pure_decode && verifying == drafts;
        gate_.record(
            {.situation = situation,
             .drafts = verifying,
             .seconds = is_steady ? took : 0,
             .drafted = verified.sequences,
             .accepted_at = std::span(verified.accepted_at).first(static_cast<std::size_t>(verifying))});
      }
      if (is_whole) {
        turn.tokens += gained;
        turn.seconds += took;
        ++turn.steps;
        ++turn.chosen[static_cast<std::size_t>(drafts)];
        if (mode == GateMode::kAlways && verifying == drafts)
          count_always(verified, took - (step_ended - step_began));
      }
      verifying = drafts;
    }
    return turn;
  }

  void count_always(const Scheduler::Verified& verified, double host) {
    split_.verify += phases_[static_cast<std::size_t>(StepPhase::kVerify)];
    split_.sample += phases_[static_cast<std::size_t>(StepPhase::kSample)];
    split_.draft += phases_[static_cast<std::size_t>(StepPhase::kDraft)];
    split_.host += host;
    ++split_steps_;
    for (std::size_t i = 0; i < drafts_at_.size(); ++i) {
      drafts_at_[i] += verified.sequences;
      accepted_at_[i] += verified.accepted_at[i];
    }
  }

  const GateBenchOptions& options_;
  SequenceLimits limits_;
  Scheduler scheduler_;
  std::unique_ptr<ModelRunner> runner_;
  SpeculationGate gate_;  // one for all cells, as a server has it
  std::uint64_t last_id_ = 0;
  double phase_began_ = 0;
  std::array<double, kStepPhases> phases_ = {};  // seconds of the step under way
  StepSplit split_;                              // seconds of all steps
  double split_steps_ = 0;
  std::vector<double> drafts_at_, accepted_at_;  // by position
};

}  // namespace

Result<GateBenchReport> measure_gate(const GateBenchOptions& options) {
  TS_TRY(const Checkpoint checkpoint, Checkpoint::open(options.model));
  TS_TRY(SpeculativeConfig config, parse_speculative_config(options.speculative_config));
  std::optional<Checkpoint> draft;
  if (!config.model.empty()) {
    TS_TRY(draft, Checkpoint::open(config.model));
  }
  TS_TRY(config,
         resolve_speculation(std::move(config), checkpoint.config(), draft ? &draft->config() : nullptr, 1));
  GateBenchReport report{.model = options.model,
                         .draft = config.model.empty() ? std::string(name_of(*config.method)) : config.model,
                         .most_drafts = config.num_speculative_tokens,
                         .cpu_time = options.cpu_time,
                         .cells = {},
                         .split = {},
                         .accepted_at = {}};
  const std::int32_t seqs = std::ranges::max(options.sequences);
  const std::int32_t longest = std::ranges::max(options.contexts) + options.output;
  const std::int32_t blocks = (longest + config.num_speculative_tokens) / kBlockSize + 2;
  RankRecipe recipe{
      .target = checkpoint,
      .runner = {.max_num_seqs = seqs,
                 .max_num_batched_tokens = std::max(2048, seqs * (1 + config.num_speculative_tokens)),
                 .max_model_len = blocks * kBlockSize,
                 .most_drafts = config.num_speculative_tokens,
                 .block_size = kBlockSize,
                 .kv_blocks = seqs * blocks}};
  recipe.speculation = &config;
  recipe.draft = draft ? &*draft : nullptr;
  RankDevice device;
  device.backend = options.make_backend();
  TS_TRY(StartedRank rank, start_rank(std::move(device), recipe));
  SchedulerOptions scheduler = scheduler_options(recipe.runner, checkpoint.config().vocab);
  scheduler.draft_lookahead = rank.draft_lookahead;
  scheduler.shared_table = has_draft_cache(config);
  GateBench bench(options, scheduler, std::move(rank));
  for (const std::int32_t context : options.contexts) {
    for (const std::int32_t sequences : options.sequences) {
      report.cells.push_back(bench.measure(sequences, context));
      options.on_cell(report.cells.back());
    }
  }
  report.split = bench.split();
  report.accepted_at = bench.accepted_at();
  return report;
}

}  // namespace tessera

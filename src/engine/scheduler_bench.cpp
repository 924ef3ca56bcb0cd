// Host work of a decode step: plan_step and apply around a runner that only samples, as many sequences as
// stated, each 8,192 tokens into its context in blocks of 64. The aim is at most 150 us at 128 sequences.
#include <benchmark/benchmark.h>

#include "engine/scheduler.h"

namespace tessera {
namespace {

class NullSink final : public RequestSink {
 public:
  void on_output(const RequestOutput&) override {}
};

void decode_step(benchmark::State& state) {
  const auto seqs = static_cast<std::int32_t>(state.range(0));
  constexpr std::int32_t kPrompt = 8192;
  constexpr std::int32_t kOutput = 120000;
  const SchedulerOptions options{.max_num_seqs = seqs,
                                 .max_num_batched_tokens = 8192,
                                 .max_model_len = kPrompt + kOutput,
                                 .block_size = 64,
                                 .kv_blocks = seqs * (kPrompt + kOutput) / 64 + seqs,
                                 .vocab = 163840,
                                 .hash_key = {.low = 1, .high = 2}};
  const SequenceLimits limits = sequence_limits(options, {});
  Scheduler scheduler(options);
  const auto sink = std::make_shared<NullSink>();
  for (std::int32_t i = 0; i < seqs; ++i) {
    GenerationRequest request;
    request.prompt.assign(kPrompt, i);
    request.sampling.max_tokens = kOutput;
    scheduler.add(
        *prepare_sequence({static_cast<std::uint64_t>(i) + 1}, std::move(request), sink, 1, limits));
  }
  StepResult result;
  std::int32_t token = 0;
  const auto run = [&] {
    const StepPlan& plan = scheduler.plan_step({});
    result.clear();
    for (const SequenceWork& work : plan.work) {
      if (!work.samples) continue;
      result.sampled.emplace_back().token = ++token % options.vocab;
      result.gained.push_back(1);
      result.rows.push_back(1);
      result.drafted.push_back(0);
    }
    benchmark::DoNotOptimize(scheduler.apply(result, {}));
    return plan.work.size();
  };
  while (scheduler.counters().generation_tokens < 4 * seqs) run();
  std::int64_t steps = 0;
  for (auto _ : state) {
    run();
    if (++steps == kOutput - 100) state.SkipWithError("ran out of context");
  }
}
BENCHMARK(decode_step)
    ->Name("scheduler/decode_step/kv:8192/seqs")
    ->Arg(1)
    ->Arg(32)
    ->Arg(128)
    ->Iterations(5000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera

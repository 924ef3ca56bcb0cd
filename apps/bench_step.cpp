#include "bench_step.h"

#include <CLI/CLI.hpp>

#include "backend/cpu/cpu_backend.h"
#include "bench/step/ceilings.h"
#include "bench/step/step_report.h"
#include "compute_device.h"
#include "plan/kv_pool.h"

namespace tessera {

using namespace bench;

void declare_bench_step_flags(CLI::App& app, BenchStepFlags& flags) {
  app.add_option("model,--model", flags.model, "Model folder or its config.json; no weights are read")
      ->required();
  app.add_option("--layers", flags.layers, "Layers that are run; 0: the fewest with one of each kind")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--experts", flags.experts, "Experts of a layer that are held; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--batch", flags.batches, "Sequences in a step, e.g. 1,8")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--context", flags.contexts, "Tokens in the cache, of each, e.g. 4096,32768")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--query-len", flags.queries, "Tokens of each: 1, or 1 and its drafts, e.g. 1,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_option("--kv-cache-dtype", flags.kv_cache_dtype, "auto, bf16, fp8, fp8_ds_mla")
      ->capture_default_str();
  app.add_option("--tensor-parallel-size", flags.ranks, "Ranks that the result is extrapolated to")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--device", flags.device, "cpu, cuda or auto")->capture_default_str();
  app.add_option("--threads", flags.threads, "Of the CPU; 0: every core")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds, "Of repetitions for each shape")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  declare_bench_output_flags(app, flags.output);
  app.footer(R"(
A decode step with random weights of the config's formats: time, bytes and FLOP of each part beside the machine's ceilings.

Examples:
  tessera bench step models/configs/kimi-k2.6.json --layers 2 --experts 64 --batch 1,4 --context 1024 --device cpu
  tessera bench step models/configs/kimi-k2.6.json --layers 4 --batch 1,16 --context 4096 --tensor-parallel-size 8 \
      --device cuda --plots plots/)");
}

Result<int> run_bench_step(const BenchStepFlags& flags) {
  TS_TRY(const ComputeDevice device, choose_device({.device = flags.device}));
  const int threads = flags.threads > 0 ? flags.threads : usable_cores();
  const BackendChoice choice{.device = device, .threads = threads};
  StepCostOptions options;
  options.layers = flags.layers;
  options.experts = flags.experts;
  options.ranks = flags.ranks;
  options.seconds = flags.seconds;
  TS_TRY(options.config, read_model_config(flags.model));
  TS_TRY(options.kv_format, parse_kv_format(flags.kv_cache_dtype, automatic_kv_format(device)));
  for (const std::int32_t context : flags.contexts) {
    for (const std::int32_t batch : flags.batches) {
      for (const std::int32_t query : flags.queries)
        options.shapes.push_back({.batch = batch, .context = context, .query = query});
    }
  }
  TS_TRY(auto backend, make_backend(choice));
  TS_TRY(const DeviceModel device_model, model_of_device(choice));
  Progress progress = make_progress(flags.output);
  BenchReport report = begin_report("step");
  report.machine["device"] = backend->name();
  report.subject = flags.model + " on " + backend->name();
  report.settings = {{"model", flags.model},
                     {"layers", std::to_string(flags.layers)},
                     {"experts", std::to_string(flags.experts)},
                     {"batch", comma_list(flags.batches)},
                     {"context", comma_list(flags.contexts)},
                     {"query-len", comma_list(flags.queries)},
                     {"kv-cache-dtype", std::string(name_of(options.kv_format))},
                     {"tensor-parallel-size", std::to_string(flags.ranks)},
                     {"device", flags.device},
                     {"threads", std::to_string(threads)},
                     {"seconds", std::to_string(flags.seconds)}};
  progress.now("step: what this machine can do");
  const Ceilings ceilings = measure_ceilings(*backend, device == ComputeDevice::kCpu ? threads : 0);
  TS_TRY(options.free_bytes, free_memory(choice));
  options.on_progress = [&](const std::string& what) { progress.now("step: " + what); };
  TS_TRY(const StepCostReport measured, measure_step(options, std::move(backend), device_model, ceilings));
  progress.done("step: done");
  add_ceilings(ceilings, report);
  fill_report(options, measured, report);
  TS_TRY(write_bench_report(report, flags.output));
  return 0;
}

}  // namespace tessera

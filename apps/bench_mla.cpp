#include "bench_mla.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "backend/cpu/cpu_backend.h"
#include "bench/step/ceilings.h"
#include "bench/step/step_report.h"
#include "compute_device.h"
#include "plan/kv_pool.h"

namespace tessera {
namespace {

using namespace bench;

// Formats, heads, contexts and batches, outermost first.
Result<std::vector<MlaDecodeCase>> cases_of(const BenchMlaFlags& flags, ComputeDevice device,
                                            std::int64_t free_bytes) {
  std::vector<MlaDecodeCase> cases;
  for (const std::string& name : flags.formats) {
    TS_TRY(const KvFormat format, parse_kv_format(name, automatic_kv_format(device)));
    for (const std::int64_t heads : flags.heads) {
      for (const std::int32_t context : flags.contexts) {
        for (const std::int32_t batch : flags.batches) {
          for (const std::int32_t query : flags.queries) {
            if (context < query)
              return Error{ErrorKind::kInvalidArgument, "--context",
                           "holds " + std::to_string(context) + ", fewer than the " + std::to_string(query) +
                               " query tokens of --query-len."};
            cases.push_back(
                {.seqs = batch, .context = context, .heads = heads, .query = query, .format = format});
            const std::int64_t bytes = OpBench::pool_bytes(cases.back());
            if (bytes > free_bytes)
              return Error{ErrorKind::kInvalidArgument, "bench mla",
                           "Batch " + std::to_string(batch) + " with context " + std::to_string(context) +
                               " needs " + std::to_string(bytes >> 20) + " MiB of rows, and " +
                               std::to_string(free_bytes >> 20) + " MiB are free."};
          }
        }
      }
    }
  }
  return cases;
}

}  // namespace

void declare_bench_mla_flags(CLI::App& app, BenchMlaFlags& flags) {
  app.add_option("--batch", flags.batches, "Sequences, e.g. 1,8,32")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--context", flags.contexts, "Tokens that each attends to, e.g. 1024,8192")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--heads", flags.heads, "Query heads of the rank, e.g. 8,64")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--query-len", flags.queries, "Tokens of each: 1, or 1 and its drafts, e.g. 1,4")
      ->delimiter(',')
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_option("--kv-cache-dtype", flags.formats, "Row formats, e.g. bf16,fp8,fp8_ds_mla")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--device", flags.device, "cpu, cuda or auto")->capture_default_str();
  app.add_option("--threads", flags.threads, "Of the CPU; 0: every core")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  declare_bench_output_flags(app, flags.output);
  app.footer(R"(
Absorbed MLA decode attention (latent 512, rope 64), over rows that were not read recently, planning included.

Example:
  tessera bench mla --batch 1,8 --context 1024,8192 --kv-cache-dtype bf16,fp8_ds_mla --plots plots/)");
}

Result<int> run_bench_mla(const BenchMlaFlags& flags) {
  TS_TRY(const ComputeDevice device, choose_device({.device = flags.device}));
  const int threads = flags.threads > 0 ? flags.threads : usable_cores();
  const BackendChoice choice{.device = device, .threads = threads};
  TS_TRY(const std::int64_t free_bytes, free_memory(choice));
  TS_TRY(const std::vector<MlaDecodeCase> cases, cases_of(flags, device, free_bytes));
  TS_TRY(const auto backend, make_backend(choice));
  Progress progress = make_progress(flags.output);
  BenchReport report = begin_report("mla");
  report.machine["device"] = backend->name();
  report.subject = "MLA decode attention on " + backend->name();
  report.settings = {{"batch", comma_list(flags.batches)},
                     {"context", comma_list(flags.contexts)},
                     {"heads", comma_list(flags.heads)},
                     {"query-len", comma_list(flags.queries)},
                     {"kv-cache-dtype", comma_list(flags.formats)},
                     {"device", flags.device},
                     {"threads", std::to_string(threads)}};
  progress.now("mla: what this machine can do");
  const Ceilings ceilings = measure_ceilings(*backend, device == ComputeDevice::kCpu ? threads : 0);
  add_ceilings(ceilings, report);
  OpBench bench(*backend);
  double least = 1e300, most = 0;
  for (const MlaDecodeCase& problem : cases) {
    progress.now("mla: " + std::to_string(report.measurements.size() + 1) + " of " +
                 std::to_string(cases.size()));
    report.measurements.push_back(measurement_of(problem, bench.mla_decode(problem), ceilings));
    const double ratio = report.measurements.back().facts.at("ratio_to_floor");
    least = std::min(least, ratio);
    most = std::max(most, ratio);
  }
  std::array<char, 128> line;
  std::snprintf(line.data(), line.size(), "%.2f to %.2f times the floor over %zu shapes.", least, most,
                cases.size());
  report.headline = line.data();
  TS_TRY(write_bench_report(report, flags.output));
  return 0;
}

}  // namespace tessera

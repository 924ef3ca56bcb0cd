#include "bench_gate.h"

#include <CLI/CLI.hpp>

#include "bench/gate/gate_report.h"
#include "bench/load/default_text.h"
#include "compute_device.h"
#include "tokenizer/tokenizer.h"
#include "whole_file.h"

namespace tessera {

void declare_bench_gate_flags(CLI::App& app, BenchGateFlags& flags) {
  app.add_option("model,--model", flags.model, "Model folder")->required();
  app.add_option("--speculative-config", flags.speculative_config, "As tessera serve takes it, JSON")
      ->required();
  app.add_option("--sequences", flags.sequences, "That decode at a time, e.g. 1,4,16")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--context", flags.contexts, "Prompt lengths in tokens, e.g. 128,1024")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--output-tokens", flags.output_tokens, "Of each sequence")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", flags.rounds, "Turns of never, always and adaptive in each cell")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warm-up-rounds", flags.warm_up_rounds,
                 "Turns before them in which the gate meets the cell; not counted")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--text", flags.text,
                 "File that prompts are cut from (default: " + std::string(bench::kDefaultTextName) + ")");
  app.add_option("--device", flags.device, "cpu, cuda or auto")->capture_default_str();
  app.add_option("--threads", flags.threads, "Of the CPU")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("--wall-clock", flags.wall_clock,
               "By the clock; on the CPU the default is CPU time, which other programs disturb little");
  declare_bench_output_flags(app, flags.output);
  app.footer(R"(
Throughput with never a draft, always as many as asked for, and as the gate decides, in turns on one runner.

Example:
  tessera bench gate models/tessera-tiny --sequences 1,4 --context 128 \
      --speculative-config '{"method": "eagle3", "model": "models/tessera-tiny-eagle3", "num_speculative_tokens": 3}')");
}

Result<int> run_bench_gate(const BenchGateFlags& flags) {
  TS_TRY(const ComputeDevice device, choose_device({.device = flags.device}));
  TS_TRY(const Tokenizer tokenizer, Tokenizer::load(flags.model));
  std::string own;
  if (!flags.text.empty()) {
    TS_TRY(own, read_whole_file(flags.text));
  }
  const std::string_view text = flags.text.empty() ? bench::default_text() : std::string_view(own);
  TS_TRY(auto tokens, tokenizer.encode(text.substr(0, 200'000), ControlTokens::kAsText));
  if (tokens.empty()) return Error{ErrorKind::kInvalidArgument, flags.text, "The file has no text."};

  bench::Progress progress = make_progress(flags.output);
  TS_TRY(auto backend, make_backend({.device = device, .threads = flags.threads}));
  const bool cpu_time = device == ComputeDevice::kCpu && !flags.wall_clock;
  bench::BenchReport report = bench::begin_report("gate");
  report.machine["device"] = backend->name();
  report.settings = {{"model", flags.model},
                     {"speculative-config", flags.speculative_config},
                     {"sequences", comma_list(flags.sequences)},
                     {"context", comma_list(flags.contexts)},
                     {"output-tokens", std::to_string(flags.output_tokens)},
                     {"rounds", std::to_string(flags.rounds)},
                     {"warm-up-rounds", std::to_string(flags.warm_up_rounds)},
                     {"text", flags.text.empty() ? std::string(bench::kDefaultTextName) : flags.text},
                     {"device", flags.device},
                     {"threads", std::to_string(flags.threads)},
                     {"clock", cpu_time ? "CPU time" : "wall"}};
  const std::size_t cells = flags.sequences.size() * flags.contexts.size();
  std::size_t done = 0;
  progress.now("gate: loading, then " + std::to_string(cells) + " cells");
  TS_TRY(const GateBenchReport measured,
         measure_gate({.model = flags.model,
                       .speculative_config = flags.speculative_config,
                       .make_backend = [&] { return std::move(backend); },
                       .text = std::move(tokens),
                       .sequences = flags.sequences,
                       .contexts = flags.contexts,
                       .output = flags.output_tokens,
                       .rounds = flags.rounds,
                       .warm_up = flags.warm_up_rounds,
                       .cpu_time = cpu_time,
                       .on_cell =
                           [&](const GateCell& cell) {
                             progress.done("gate: context " + std::to_string(cell.context) + ", " +
                                           std::to_string(cell.sequences) + " sequences: done (" +
                                           std::to_string(++done) + " of " + std::to_string(cells) + ")");
                           }}));
  fill_report(measured, report);
  TS_TRY(write_bench_report(report, flags.output));
  return 0;
}

}  // namespace tessera

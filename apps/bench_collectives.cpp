#include "bench_collectives.h"

#include <CLI/CLI.hpp>

#include "bench/exchange/exchange_report.h"

namespace tessera {
namespace {

Result<std::vector<int>> context_ranks_of(const BenchCollectivesFlags& flags) {
  if (flags.context_ranks.empty()) {
    std::vector<int> all;
    for (int d = 1; d <= flags.ranks; d *= 2) {
      if (flags.ranks % d == 0) all.push_back(d);
    }
    return all;
  }
  for (const int d : flags.context_ranks) {
    if (flags.ranks % d != 0)
      return Error{ErrorKind::kInvalidArgument, "--decode-context-parallel-size",
                   "holds " + std::to_string(d) + ", which does not divide the " +
                       std::to_string(flags.ranks) + " ranks."};
  }
  return flags.context_ranks;
}

}  // namespace

void declare_bench_collectives_flags(CLI::App& app, BenchCollectivesFlags& flags) {
  app.add_option("model,--model", flags.model, "Model folder")->required();
  app.add_option("--tensor-parallel-size", flags.ranks, "Ranks, threads of this machine")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--decode-context-parallel-size", flags.context_ranks,
                 "Sizes D to compare, e.g. 1,2,8 (default: powers of two that divide the ranks)")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--sequences", flags.sequences, "That decode in each step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--context", flags.context, "Tokens of each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--short-context", flags.short_context, "Tokens of those that stay on every rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", flags.rounds, "Turns of each layout, four steps each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--short-rounds", flags.short_rounds, "Further turns of short sequences")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  declare_bench_output_flags(app, flags.output);
  app.footer(R"(
Decode steps of one model on the CPU; layouts take turns, so that only the number of ranks that share a cache differs.

Example:
  tessera bench collectives models/tessera-tiny --tensor-parallel-size 2 --sequences 4 --context 256)");
}

Result<int> run_bench_collectives(const BenchCollectivesFlags& flags) {
  ExchangeBenchOptions options{.model = flags.model,
                               .ranks = flags.ranks,
                               .context_ranks = {},
                               .sequences = flags.sequences,
                               .context = flags.context,
                               .elastic_context = flags.short_context,
                               .rounds = flags.rounds,
                               .elastic_rounds = flags.short_rounds};
  TS_TRY(options.context_ranks, context_ranks_of(flags));
  bench::Progress progress = make_progress(flags.output);
  options.on_round = [&](std::int32_t round, std::int32_t of) {
    progress.now("collectives: turn " + std::to_string(round) + " of " + std::to_string(of));
  };
  progress.now("collectives: loading");
  bench::BenchReport report = bench::begin_report("collectives");
  report.settings = {{"model", flags.model},
                     {"tensor-parallel-size", std::to_string(flags.ranks)},
                     {"decode-context-parallel-size", comma_list(options.context_ranks)},
                     {"sequences", std::to_string(flags.sequences)},
                     {"context", std::to_string(flags.context)},
                     {"short-context", std::to_string(flags.short_context)},
                     {"rounds", std::to_string(flags.rounds)},
                     {"short-rounds", std::to_string(flags.short_rounds)}};
  TS_TRY(const ExchangeReport measured, measure_exchanges(options));
  fill_report(measured, report);
  progress.done("collectives: done");
  TS_TRY(write_bench_report(report, flags.output));
  return 0;
}

}  // namespace tessera

#include "bench_server.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "bench/server/server_cost.h"

namespace tessera {

void declare_bench_server_flags(CLI::App& app, BenchServerFlags& flags) {
  app.add_option("model,--model", flags.model, "Model folder: its tokenizer and chat template")->required();
  app.add_option("--connections", flags.connections, "Clients at a time, e.g. 1,32")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds, "Of each measurement")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--io-threads", flags.io_threads, "Of the server")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--tokens", flags.tokens, "Of each answer")
      ->check(CLI::Range(1, 8000))
      ->capture_default_str();
  declare_bench_output_flags(app, flags.output);
  app.footer(R"(
What the server itself costs: chat requests, whole and streamed, against an engine that answers at once.

Example:
  tessera bench server models/tessera-tiny --connections 1,32)");
}

Result<int> run_bench_server(const BenchServerFlags& flags) {
  bench::Progress progress = make_progress(flags.output);
  bench::BenchReport report = bench::begin_report("server");
  report.subject = "tessera's server over an engine that answers at once, tokenizer of " + flags.model;
  report.settings = {{"model", flags.model},
                     {"connections", comma_list(flags.connections)},
                     {"seconds", std::to_string(flags.seconds)},
                     {"io-threads", std::to_string(flags.io_threads)},
                     {"tokens", std::to_string(flags.tokens)}};
  report.notes.emplace_back("Client and server share the machine's cores.");
  for (const int connections : flags.connections) {
    for (const bool stream : {false, true}) {
      const bench::ServerCostOptions options{.model = flags.model,
                                             .connections = connections,
                                             .seconds = flags.seconds,
                                             .io_threads = flags.io_threads,
                                             .tokens = flags.tokens,
                                             .stream = stream};
      progress.now("server: " + std::to_string(connections) + " connections, " +
                   (stream ? "streamed" : "whole"));
      TS_TRY(const bench::ServerCost cost, measure_server(options));
      add_measurements(options, cost, report);
      std::array<char, 128> line;
      std::snprintf(line.data(), line.size(), "%s%.0f requests/s %s, %.0f us of CPU each",
                    report.headline.empty() ? "" : "; ", cost.requests_per_s, stream ? "streamed" : "whole",
                    cost.cpu_us);
      if (connections == flags.connections.back()) report.headline += line.data();
    }
  }
  report.headline += " (" + std::to_string(flags.connections.back()) + " connections).";
  TS_TRY(write_bench_report(report, flags.output));
  return 0;
}

}  // namespace tessera

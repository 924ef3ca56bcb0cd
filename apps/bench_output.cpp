#include "bench_output.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "bench/report/plots.h"
#include "bench/report/report_text.h"
#include "whole_file.h"

namespace tessera {

void declare_bench_output_flags(CLI::App& app, BenchOutputFlags& flags) {
  app.add_option("-o,--output", flags.output, "File for the report as JSON");
  app.add_option("--plots", flags.plots, "Folder for plots (SVG); made if it is not there");
  app.add_flag("--json", flags.json, "Print JSON instead of tables");
  app.add_flag("--quiet", flags.quiet, "No progress");
}

bench::Progress make_progress(const BenchOutputFlags& flags) {
  return {flags.quiet ? nullptr : stderr, isatty(STDERR_FILENO) == 1};
}

Result<void> write_bench_report(const bench::BenchReport& report, const BenchOutputFlags& flags) {
  const std::string json = to_json(report);
  std::cout << (flags.json ? json : report_text(report)) << std::flush;
  if (!flags.output.empty()) TS_TRY(write_whole_file(flags.output, json));
  if (!flags.plots.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(flags.plots, failed);
    for (const bench::Plot& plot : bench::plots_of(report))
      TS_TRY(
          write_whole_file((std::filesystem::path(flags.plots) / (plot.name + ".svg")).string(), plot.svg));
  }
  return {};
}

}  // namespace tessera

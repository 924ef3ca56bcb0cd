#include "bench_compare.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "bench/compare/comparison_text.h"
#include "bench/compare/result_file.h"
#include "whole_file.h"

namespace tessera {
namespace {

using namespace bench;

Result<BenchReport> read_report(const std::string& path) {
  TS_TRY(const std::string text, read_whole_file(path));
  return read_result(text, path);
}

Result<void> check_share(const char* flag, double value) {
  if (value > 0 && value < 1) return {};
  return Error{ErrorKind::kInvalidArgument, flag,
               "is " + std::to_string(value) + "; it must lie between 0 and 1."};
}

}  // namespace

void declare_bench_compare_flags(CLI::App& app, BenchCompareFlags& flags) {
  app.add_option("before", flags.before, "Result to compare with (JSON)")->required();
  app.add_option("after", flags.after, "Result to judge (JSON)")->required();
  app.add_option("--noise-runs", flags.noise_runs,
                 "Further results of the first's configuration: how far runs differ");
  app.add_option("--confidence", flags.confidence, "Of intervals")->capture_default_str();
  app.add_option("--tolerance", flags.tolerance, "Changes below this share are equal")->capture_default_str();
  app.add_option("--dramatic", flags.dramatic, "Worse by this share is dramatically worse")
      ->capture_default_str();
  app.add_option("-o,--output", flags.output, "File for the comparison as JSON");
  app.add_flag("--json", flags.json, "Print JSON instead of Markdown");
  app.footer(R"(
Reads results of tessera bench, of vLLM's bench serve and of llm-inference-bench.
Exit codes: 0 better or equal, 1 a group is worse (or a file cannot be read), 2 wrong usage.

Example:
  tessera bench compare monday.json today.json --noise-runs monday2.json monday3.json)");
}

Result<int> run_bench_compare(const BenchCompareFlags& flags) {
  TS_TRY(check_share("--confidence", flags.confidence));
  TS_TRY(check_share("--dramatic", flags.dramatic));
  if (!(flags.tolerance >= 0 && flags.tolerance < flags.dramatic))
    return Error{ErrorKind::kInvalidArgument, "--tolerance", "must be at least 0 and below --dramatic."};
  TS_TRY(const BenchReport before, read_report(flags.before));
  TS_TRY(const BenchReport after, read_report(flags.after));
  std::vector<BenchReport> noise;
  for (const std::string& path : flags.noise_runs) {
    TS_TRY(BenchReport run, read_report(path));
    noise.push_back(std::move(run));
  }
  const CompareOptions options{
      .confidence = flags.confidence, .tolerance = flags.tolerance, .dramatic = flags.dramatic};
  const Comparison comparison = compare(before, after, noise, options);
  const CompareNames names{flags.before, flags.after};
  const std::string json = comparison_json(comparison, names, options);
  std::cout << (flags.json ? json : comparison_markdown(comparison, names, options));
  if (!flags.output.empty()) TS_TRY(write_whole_file(flags.output, json));
  if (comparison.cells.empty())
    return Error{ErrorKind::kMismatch, flags.after,
                 "It has no measurement in common with " + flags.before + "."};
  return comparison.is_worse() ? 1 : 0;
}

}  // namespace tessera

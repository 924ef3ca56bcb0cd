// Where a report goes: a table to the terminal, JSON and plots to files.
#pragma once

#include <string>

#include "bench/report/bench_report.h"

namespace CLI {
class App;
}

namespace tessera {

struct BenchOutputFlags {
  std::string output;  // file for the JSON
  std::string plots;   // folder for SVG files
  bool json = false;   // JSON instead of the table
};

void declare_bench_output_flags(CLI::App& app, BenchOutputFlags& flags);
Result<void> write_bench_report(const bench::BenchReport& report, const BenchOutputFlags& flags);

}  // namespace tessera

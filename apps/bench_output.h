// Where a report goes: a table to the terminal, JSON and plots to files.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "bench/report/bench_report.h"
#include "bench/report/progress.h"

namespace CLI {
class App;
}

namespace tessera {

struct BenchOutputFlags {
  std::string output;  // file for the JSON
  std::string plots;   // folder for SVG files
  bool json = false;   // JSON instead of the table
  bool quiet = false;
};

void declare_bench_output_flags(CLI::App& app, BenchOutputFlags& flags);
bench::Progress make_progress(const BenchOutputFlags& flags);  // to stderr
Result<void> write_bench_report(const bench::BenchReport& report, const BenchOutputFlags& flags);

// A list as it would be typed: "1,8,64".
template <class T>
std::string comma_list(const std::vector<T>& values) {
  std::ostringstream out;
  for (std::size_t i = 0; i < values.size(); ++i) out << (i > 0 ? "," : "") << values[i];
  return out.str();
}

}  // namespace tessera

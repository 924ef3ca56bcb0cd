// `tessera bench compare`: flags, and the comparison that they ask for.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tessera {

struct BenchCompareFlags {
  std::string before;
  std::string after;
  std::vector<std::string> noise_runs;
  double confidence = 0.95;
  double tolerance = 0.01;
  double dramatic = 0.2;
  bool json = false;
  std::string output;  // file for the JSON
};

void declare_bench_compare_flags(CLI::App& app, BenchCompareFlags& flags);
Result<int> run_bench_compare(const BenchCompareFlags& flags);  // 1 when a group is worse

}  // namespace tessera

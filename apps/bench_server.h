// `tessera bench server`: flags, and the measurement that they describe.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench_output.h"

namespace tessera {

struct BenchServerFlags {
  std::string model;
  std::vector<int> connections = {32};
  double seconds = 5;
  int io_threads = 2;
  int tokens = 8;
  BenchOutputFlags output;
};

void declare_bench_server_flags(CLI::App& app, BenchServerFlags& flags);
Result<int> run_bench_server(const BenchServerFlags& flags);

}  // namespace tessera

// `tessera bench step`: flags, and the measurement that they describe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_output.h"

namespace tessera {

struct BenchStepFlags {
  std::string model;
  std::int64_t layers = 0;
  std::int64_t experts = 0;
  std::vector<std::int32_t> batches = {1};
  std::vector<std::int32_t> contexts = {4096};
  std::vector<std::int32_t> queries = {1};
  std::string kv_cache_dtype = "auto";
  int ranks = 1;
  std::string device = "auto";
  int threads = 0;
  double seconds = 2;
  BenchOutputFlags output;
};

void declare_bench_step_flags(CLI::App& app, BenchStepFlags& flags);
Result<int> run_bench_step(const BenchStepFlags& flags);

}  // namespace tessera

// `tessera bench mla`: flags, and the measurement that they describe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_output.h"

namespace tessera {

struct BenchMlaFlags {
  std::vector<std::int32_t> batches = {1, 8};
  std::vector<std::int32_t> contexts = {1024, 8192};
  std::vector<std::int64_t> heads = {64};
  std::vector<std::int32_t> queries = {1};
  std::vector<std::string> formats = {"auto"};
  std::string device = "auto";
  int threads = 0;
  BenchOutputFlags output;
};

void declare_bench_mla_flags(CLI::App& app, BenchMlaFlags& flags);
Result<int> run_bench_mla(const BenchMlaFlags& flags);

}  // namespace tessera

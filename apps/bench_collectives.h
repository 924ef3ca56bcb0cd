// `tessera bench collectives`: flags, and the measurement that they describe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_output.h"

namespace tessera {

struct BenchCollectivesFlags {
  std::string model;
  int ranks = 2;
  std::vector<int> context_ranks;  // empty: every power of two that divides the ranks
  std::int32_t sequences = 8;
  std::int32_t context = 1024;
  std::int32_t short_context = 128;
  std::int32_t rounds = 8;
  std::int32_t short_rounds = 60;
  BenchOutputFlags output;
};

void declare_bench_collectives_flags(CLI::App& app, BenchCollectivesFlags& flags);
Result<int> run_bench_collectives(const BenchCollectivesFlags& flags);

}  // namespace tessera

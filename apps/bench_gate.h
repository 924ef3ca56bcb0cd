// `tessera bench gate`: flags, and the measurement that they describe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_output.h"

namespace tessera {

struct BenchGateFlags {
  std::string model;
  std::string speculative_config;
  std::string text;
  std::vector<std::int32_t> sequences = {1, 4, 16};
  std::vector<std::int32_t> contexts = {128, 1024};
  std::int32_t output_tokens = 32;
  std::int32_t rounds = 5;
  std::int32_t warm_up_rounds = 3;
  std::string device = "cpu";
  int threads = 1;
  bool wall_clock = false;
  BenchOutputFlags output;
};

void declare_bench_gate_flags(CLI::App& app, BenchGateFlags& flags);
Result<int> run_bench_gate(const BenchGateFlags& flags);

}  // namespace tessera

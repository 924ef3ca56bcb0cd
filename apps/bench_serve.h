// `tessera bench serve`: flags, and the run that they describe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench_output.h"

namespace tessera {

struct BenchServeFlags {
  std::string url = "http://127.0.0.1:8000";
  std::string model;
  std::string api_key;
  std::vector<std::int64_t> contexts = {0, 4096, 16384};
  std::vector<std::int32_t> concurrencies = {1, 2, 4, 8, 16, 32};
  double seconds = 10;
  double warm_up = 5;
  int slices = 10;
  int prefill_samples = 3;
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> kv_tokens;
  bool measure_overflow = false;
  double patience = 5;
  std::int64_t long_context = 16384;
  std::vector<double> request_rates;
  double burstiness = 1;
  std::int32_t requests = 100;
  std::int64_t prompt_tokens = 1024;
  std::int64_t output_tokens = 128;
  std::string trace;
  double trace_speed = 1;
  std::string text;
  std::string tokenizer;
  std::optional<double> temperature;
  std::string extra_body;
  bool respect_eos = false;
  std::optional<std::uint64_t> seed;
  BenchOutputFlags output;
};

void declare_bench_serve_flags(CLI::App& app, BenchServeFlags& flags);
Result<int> run_bench_serve(const BenchServeFlags& flags);

}  // namespace tessera

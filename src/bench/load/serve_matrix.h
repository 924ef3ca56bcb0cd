// `tessera bench serve`: the matrix of context and concurrency, prefill apart.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/load/prompt_pool.h"
#include "bench/load/request_body.h"
#include "bench/load/server_facts.h"
#include "bench/report/bench_report.h"
#include "bench/report/progress.h"

namespace tessera::bench {

struct MatrixOptions {
  std::vector<std::int64_t> contexts;       // tokens, ascending
  std::vector<std::int32_t> concurrencies;  // ascending
  double window_s = 10;                     // of a cell
  double warm_up_s = 5;                     // of the cell that is thrown away; 0: none
  int slices = 10;
  int prefill_samples = 3;  // 0: prefill is not measured
  // Of a stream (default: what the model's context has room for, 16,384 at most).
  std::optional<std::int64_t> max_tokens{};
  std::optional<std::int64_t> kv_tokens{};  // that the cache holds (default: as /metrics says)
  bool measure_overflow = false;            // also cells that the cache cannot hold
  std::int64_t long_context = 16'384;       // from here on decoding counts as long
  double patience_s = 5;
  RequestStyle style{};
};

// Fills in measurements, headline and notes.
void measure_matrix(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts,
                    const MatrixOptions& options, Progress& progress, BenchReport& report);

}  // namespace tessera::bench

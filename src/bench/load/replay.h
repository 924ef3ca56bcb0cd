// Replays a trace against a server: every request at its time, however many are then open.
#pragma once

#include "bench/load/prompt_pool.h"
#include "bench/load/replay_trace.h"
#include "bench/load/request_body.h"
#include "bench/load/server_facts.h"
#include "bench/report/bench_report.h"
#include "bench/report/progress.h"

namespace tessera::bench {

struct ReplayOptions {
  double speed = 1;                                  // 2: arrivals and waits in half the time
  double timeout_s = 3600;                           // of the whole
  std::vector<std::pair<std::string, double>> axes;  // of the measurements: {"request_rate", 4}
  std::string series;
  RequestStyle style;
};

// Adds throughputs and latencies; those of requests that failed or ended early are marked.
void replay(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts, const ReplayTrace& trace,
            const ReplayOptions& options, Progress& progress, BenchReport& report);

}  // namespace tessera::bench

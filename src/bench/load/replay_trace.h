// A trace: when whose requests came, how long they were and what they shared. No text: lengths are what a
// server's work depends on. The format is described in docs/reference/bench-trace.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::bench {

struct TraceTurn {
  double wait_s = 0;            // after the answer before it; of the first turn after the session's arrival
  std::int64_t new_tokens = 0;  // that the prompt grows by, besides the answer before
  std::int64_t output_tokens = 0;  // at least 1
};

// A dialogue: each turn's prompt is the one before, its answer, and something new.
struct TraceSession {
  double at_s = 0;       // its arrival
  std::string prefix{};  // name of the beginning that it shares with others; empty: none
  std::int64_t prefix_tokens = 0;
  std::vector<TraceTurn> turns{};

  std::int64_t longest() const;  // tokens of the last prompt and its answer
};

struct ReplayTrace {
  std::string name;
  std::string about;
  std::vector<TraceSession> sessions;  // by arrival
};

Result<ReplayTrace> parse_trace(std::string_view text, const std::string& where);

// Sessions of one turn that come by themselves: exponential gaps at burstiness 1 (Poisson), more even above,
// in bursts below (gamma, as vLLM's `bench serve` has it).
struct ArrivalPlan {
  double requests_per_s = 1;
  double burstiness = 1;
  std::int32_t requests = 100;
  std::int64_t prompt_tokens = 1024;
  std::int64_t output_tokens = 128;
  std::uint64_t seed = 1;
};
ReplayTrace arrivals(const ArrivalPlan& plan);

}  // namespace tessera::bench

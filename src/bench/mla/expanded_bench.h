// Times expanded attention alone: not the gathering of rows nor the products that make keys and values.
#pragma once

#include <cstdint>

namespace tessera::bench {

struct ExpandedBenchCase {
  std::int32_t tokens = 0;   // of one sequence
  std::int32_t context = 0;  // rows before the first token
  std::int32_t heads = 64;
  bool portable = false;  // the form of every card instead of Hopper's own
};
struct ExpandedBenchResult {
  double median_us = 0;  // all rounds of one layer
  double low_us = 0;     // 10th percentile
  double high_us = 0;    // 90th percentile
  double flops = 0;      // 2 * heads * (pairs of a token and a row that it sees) * (192 + 128)
};

// Random keys and values, the same chunk of rows every round. One sequence, causal.
ExpandedBenchResult time_expanded(const ExpandedBenchCase& problem, int timings);

}  // namespace tessera::bench

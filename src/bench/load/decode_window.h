// What a window of time says of streams that were decoding: a pure function of the times at which tokens
// came.
#pragma once

#include <span>
#include <vector>

#include "bench/load/completion_stream.h"

namespace tessera::bench {

struct Window {
  double begin = 0;
  double end = 0;
};

struct DecodeFigures {
  double tokens_per_s = 0;               // of all streams together
  std::vector<double> slices;            // the same for equal parts of the window, in order
  double effective_concurrency = 0;      // streams that were decoding, averaged over the window
  std::vector<double> gaps_ms;           // between arrivals within the window
  std::vector<double> slice_gap_p99_ms;  // by slice
  double first_part = 1;                 // rate of the first quarter over the median of the rest
};

// A stream's tokens are spread evenly over the gap before their arrival, in which they were made: so neither
// a window's edges nor steps longer than a slice count a token twice or not at all.
DecodeFigures measure_window(std::span<const StreamTrace* const> streams, const Window& window, int slices);

// A first quarter that differs from the rest by more is no steady state.
inline constexpr double kSteadyWithin = 0.10;

}  // namespace tessera::bench

// The plots that a report is worth: a heat map of a matrix, a roofline, a distribution of latencies.
#pragma once

#include <string>
#include <vector>

#include "bench/report/bench_report.h"

namespace tessera::bench {

struct Plot {
  std::string name;  // of a file, without its ending
  std::string svg;
};

// Heat map: for every metric over two axes. Roofline: when measurements have the facts "flops", "bytes" and
// "us", and settings name the ceilings "read_gb_s" and "tflop_s". Latency: when cells have percentiles of
// gaps or first tokens.
std::vector<Plot> plots_of(const BenchReport& report);

}  // namespace tessera::bench

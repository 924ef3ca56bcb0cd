// A report as people read it in a terminal.
#pragma once

#include <string>

#include "bench/report/bench_report.h"

namespace tessera::bench {

// The headline; a table for each metric with two numeric axes (the last one across), else a line a
// measurement; then remarks and notes.
std::string report_text(const BenchReport& report);

}  // namespace tessera::bench

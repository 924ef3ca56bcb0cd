// What was measured of the gate, in the form of every benchmark.
#pragma once

#include "bench/gate/gate_bench.h"
#include "bench/report/bench_report.h"

namespace tessera {

// Adds measurements, subject and headline.
void fill_report(const GateBenchReport& measured, bench::BenchReport& report);

}  // namespace tessera

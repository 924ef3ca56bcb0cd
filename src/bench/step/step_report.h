// Operations and steps in the form of every benchmark: beside their floors, as points of a roofline.
#pragma once

#include "bench/report/bench_report.h"
#include "bench/step/op_bench.h"
#include "bench/step/step_cost.h"

namespace tessera::bench {

// As settings, where the roofline finds them.
void add_ceilings(const Ceilings& ceilings, BenchReport& report);
Measurement measurement_of(const MlaDecodeCase& problem, const OpResult& result, const Ceilings& ceilings);
// Adds measurements and headline.
void fill_report(const StepCostOptions& options, const StepCostReport& measured, BenchReport& report);

}  // namespace tessera::bench

// What the exchange between ranks cost, in the form of every benchmark.
#pragma once

#include "bench/exchange/exchange_bench.h"
#include "bench/report/bench_report.h"

namespace tessera {

// Adds measurements, subject and headline.
void fill_report(const ExchangeReport& measured, bench::BenchReport& report);

}  // namespace tessera

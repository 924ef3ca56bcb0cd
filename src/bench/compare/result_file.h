// Results of a benchmark from whatever wrote them, as one report: our own, vLLM's `bench serve`, and
// llm-inference-bench's benchmark_results.json.
#pragma once

#include <string>
#include <string_view>

#include "bench/report/bench_report.h"

namespace tessera::bench {

// The kind of file is found from its content. kUnsupported for JSON of none of the three.
Result<BenchReport> read_result(std::string_view text, const std::string& where);

}  // namespace tessera::bench

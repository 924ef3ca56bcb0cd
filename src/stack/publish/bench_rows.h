// Benchmark figures for the report, from whatever wrote them: our own comparison, vLLM's `bench serve`,
// llm-inference-bench, CSV.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::stack {

struct BenchRow {
  std::string configuration;  // "context 32768, concurrency 8"
  std::string metric;         // "output tokens/s"
  std::string unit{};
  std::optional<double> before{};
  std::optional<double> after{};
  std::string spread{};   // "1.02 to 1.09", as the file says it
  std::string verdict{};  // of our own comparison; else empty
  std::string image{};    // digest; empty: nobody says what was measured
  std::string source{};   // file name
  bool higher_is_better = true;

  // after / before - 1; nothing without both.
  std::optional<double> change() const;
  // Worse by more than two percent, or by the comparison's own verdict.
  bool is_regression() const;
};

// The kind of file is found from its content. `image` is what the plan says; a file's own statement wins.
Result<std::vector<BenchRow>> read_bench_rows(std::string_view text, const std::string& source,
                                              const std::string& image);

}  // namespace tessera::stack

// Is B faster than A, or is it noise? A ratio with an interval for every cell, and a verdict for every group
// of cells.
//
// Two kinds of noise are told apart. Within a run, slices of its windows scatter: their means are resampled
// (bootstrap, in blocks of two neighbours). Between runs, everything may shift together (clocks, placement,
// neighbours): only further runs of A's configuration can tell how far, and they also make A's own figures
// better. Without them a shift of one percent (one standard deviation) is assumed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/report/bench_report.h"

namespace tessera::bench {

enum class Verdict {
  kBetter,
  kEqual,
  kWorse,
  kDramaticallyWorse,
};
std::string_view name_of(Verdict verdict);  // "equal within noise"

struct CompareOptions {
  double confidence = 0.95;
  double tolerance = 0.01;          // changes below it are equal, however sure
  double dramatic = 0.20;           // worse by this share
  double assumed_run_noise = 0.01;  // standard deviation between runs, where no further runs say it
  std::int32_t draws = 4000;
  std::uint64_t seed = 1;
};

struct CellChange {
  const Measurement* cell = nullptr;  // of A
  double before = 0;
  double after = 0;
  double ratio = 1;  // after over before
  double low = 1;    // of its interval
  double high = 1;
  Verdict verdict = Verdict::kEqual;
};

struct GroupChange {
  std::string group;
  std::size_t cells = 0;
  double gain = 1;  // geometric mean over the cells, above 1 is better whatever the metric
  double low = 1;
  double high = 1;
  double run_noise = 0;  // standard deviation between runs that was used
  bool is_run_noise_measured = false;
  Verdict verdict = Verdict::kEqual;
};

struct Comparison {
  std::vector<CellChange> cells;
  std::vector<GroupChange> groups;
  std::vector<std::string> notes;  // what was left out, and why

  bool is_worse() const;  // any group
};

// `noise_runs`: of the same configuration as `a`. The result points into `a`.
Comparison compare(const BenchReport& a, const BenchReport& b, std::span<const BenchReport> noise_runs,
                   const CompareOptions& options);

}  // namespace tessera::bench

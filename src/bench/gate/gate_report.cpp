#include "bench/gate/gate_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace tessera {

using bench::Measurement;

void fill_report(const GateBenchReport& measured, bench::BenchReport& report) {
  report.subject = measured.model + " with " + measured.draft + ", up to " +
                   std::to_string(measured.most_drafts) + " drafts";
  const char* clock = measured.cpu_time ? "tok/s of CPU time" : "tok/s";
  const GateCell* worst = nullptr;
  for (const GateCell& cell : measured.cells) {
    if (worst == nullptr || cell.adaptive_share < worst->adaptive_share) worst = &cell;
    const std::vector<std::pair<std::string, double>> axes = {{"context", cell.context},
                                                              {"sequences", cell.sequences}};
    report.measurements.push_back(
        {.metric = "adaptive against the better of the two",
         .unit = "%",
         .axes = axes,
         .value = 100 * cell.adaptive_share,
         .facts = {{"chosen_drafts", cell.chosen}, {"tokens_per_step", cell.tokens_per_step}}});
    constexpr std::array<const char*, kGateModes> kModes = {"never", "always", "adaptive"};
    for (std::size_t mode = 0; mode < kGateModes; ++mode) {
      report.measurements.push_back({.metric = "decode throughput",
                                     .unit = clock,
                                     .axes = axes,
                                     .series = kModes[mode],
                                     .value = cell.rate[mode],
                                     .group = std::string(bench::kShortDecode)});
    }
  }
  const StepSplit& split = measured.split;
  for (const auto& [part, us] : {std::pair{"verify: the target's pass", split.verify},
                                 {"sample: head, sampling, acceptance", split.sample},
                                 {"draft: the proposer", split.draft},
                                 {"host: planning, taking results", split.host}}) {
    report.measurements.push_back({.metric = "part of a step with all drafts",
                                   .unit = "us",
                                   .series = part,
                                   .value = us,
                                   .higher_is_better = false});
  }
  for (std::size_t i = 0; i < measured.accepted_at.size(); ++i) {
    report.measurements.push_back({.metric = "drafts that stood",
                                   .unit = "%",
                                   .axes = {{"position", static_cast<double>(i + 1)}},
                                   .value = 100 * measured.accepted_at[i]});
  }
  if (worst == nullptr) return;
  std::array<char, 160> line;
  std::snprintf(line.data(), line.size(),
                "Adaptive is at worst %.1f %% of the better of never and always (context %d, sequences %d).",
                100 * worst->adaptive_share, worst->context, worst->sequences);
  report.headline = line.data();
}

}  // namespace tessera

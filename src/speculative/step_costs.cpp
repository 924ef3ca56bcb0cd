#include "speculative/step_costs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kWindow = 32;  // steps that the fading average remembers
// A step of 1.5 times the average is counted as that: something else took the time. Three in a row are a new
// level. While there are few samples, the average itself may be the outlier: then the lower one is believed.
constexpr double kOutlier = 1.5;
constexpr std::int64_t kFewSamples = 8;
constexpr std::int64_t kTrusted = 3;  // samples without which a cost is not known, unless it was inherited
constexpr std::int32_t kNewLevel = 3;
constexpr std::int32_t kExactBatches = 16;
// Of what a neighbouring cell knows, and at most.
constexpr double kDoubtOfOneStep = 0.04;
constexpr double kMostDoubt = 0.5;
constexpr double kUnsettled = 0.25;  // of a step that has not settled

std::int32_t quarter_octaves(double x) { return static_cast<std::int32_t>(4 * std::log2(std::max(1.0, x))); }

}  // namespace

StepCosts::Cell StepCosts::cell_of(const StepSituation& s) {
  return {.batch = s.batch <= kExactBatches
                       ? s.batch
                       : kExactBatches + quarter_octaves(static_cast<double>(s.batch) / kExactBatches),
          .context = quarter_octaves(static_cast<double>(s.context)),
          .draftable = s.batch > 0 ? (4 * s.draftable + s.batch - 1) / s.batch : 0};
}

void StepCosts::record(const StepSituation& situation, std::int32_t drafts, double seconds, bool is_settled) {
  TS_CHECK(drafts >= 0 && drafts <= most_drafts_, drafts, most_drafts_);
  if (!(seconds > 0) || !std::isfinite(seconds)) return;
  const Cell cell = cell_of(situation);
  auto at = cells_.find(cell);
  if (at == cells_.end()) {
    const Similar similar = most_similar(cell);
    Costs costs{.of = std::vector<Cost>(static_cast<std::size_t>(most_drafts_) + 1),
                .origin = similar.costs,
                .doubt = similar.doubt};
    at = cells_.emplace(cell, std::move(costs)).first;
  }
  inherit(at->second);
  Cost& cost = at->second.of[static_cast<std::size_t>(drafts)];
  if (cost.is_settled && !is_settled) return;
  if (is_settled && !cost.is_settled) cost = {.is_settled = true, .inherited = cost.inherited};
  double value = seconds;
  if (cost.samples > 0 && seconds > kOutlier * cost.mean) {
    if (++cost.outliers >= kNewLevel) {
      cost = {.is_settled = is_settled, .inherited = cost.inherited};
    } else {
      value = kOutlier * cost.mean;
    }
  } else {
    if (cost.samples < kFewSamples && kOutlier * seconds < cost.mean)
      cost = {.is_settled = is_settled, .inherited = cost.inherited};
    cost.outliers = 0;
  }
  ++cost.samples;
  cost.mean += (value - cost.mean) / static_cast<double>(std::min(cost.samples, kWindow));
}

void StepCosts::inherit(Costs& costs) const {
  if (costs.origin == nullptr) return;
  for (std::int32_t k = 0; k <= most_drafts_; ++k)
    costs.of[static_cast<std::size_t>(k)].inherited = seconds_in(*costs.origin, k).value_or(0);
}

// What has been measured here says by how much this cell is dearer than the one it inherited from.
std::optional<double> StepCosts::seconds_in(const Costs& costs, std::int32_t drafts) const {
  const Cost& own = costs.of[static_cast<std::size_t>(drafts)];
  if (own.samples >= kTrusted) return own.mean;
  double dearer = 0, weight = 0;
  for (const Cost& cost : costs.of) {
    if (cost.samples == 0 || cost.inherited <= 0) continue;
    const auto w = static_cast<double>(std::min(cost.samples, kWindow));
    dearer += w * cost.mean / cost.inherited;
    weight += w;
  }
  const double scale = weight > 0 ? dearer / weight : 1;
  if (own.inherited <= 0) return std::nullopt;
  if (own.samples == 0) return own.inherited * scale;
  const double belief = 1 - costs.doubt / kMostDoubt;  // in what was inherited, beside the first samples
  return (belief * own.inherited * scale + own.mean) / (belief + 1);
}

StepCosts::Similar StepCosts::most_similar(const Cell& cell) const {
  const Costs* best = nullptr;
  std::int32_t least = 0;
  for (const auto& [other, costs] : cells_) {
    const std::int32_t distance = std::abs(other.batch - cell.batch) +
                                  std::abs(other.context - cell.context) +
                                  4 * std::abs(other.draftable - cell.draftable);
    if (best != nullptr && distance >= least) continue;
    best = &costs;
    least = distance;
  }
  return {best, best != nullptr ? std::min(kMostDoubt, kDoubtOfOneStep * least) : kMostDoubt};
}

std::optional<double> StepCosts::seconds(const StepSituation& situation, std::int32_t drafts) const {
  const Cell cell = cell_of(situation);
  const auto at = cells_.find(cell);
  if (at != cells_.end()) return seconds_in(at->second, drafts);
  const Costs* similar = most_similar(cell).costs;
  return similar != nullptr ? seconds_in(*similar, drafts) : std::nullopt;
}

double StepCosts::doubt(const StepSituation& situation, std::int32_t drafts) const {
  const Cell cell = cell_of(situation);
  const auto at = cells_.find(cell);
  if (at == cells_.end()) return most_similar(cell).doubt;
  const Cost& own = at->second.of[static_cast<std::size_t>(drafts)];
  if (own.samples >= kFewSamples) return 0;  // steps never settle here
  if (own.samples > 0 && !own.is_settled) return std::min(at->second.doubt, kUnsettled);
  return at->second.doubt * static_cast<double>(kTrusted - std::min(own.samples, kTrusted)) /
         static_cast<double>(kTrusted);
}

std::int64_t StepCosts::samples(const StepSituation& situation, std::int32_t drafts) const {
  const auto at = cells_.find(cell_of(situation));
  return at == cells_.end() ? 0 : at->second.of[static_cast<std::size_t>(drafts)].samples;
}

}  // namespace tessera

#include "plan/predict_fit.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

namespace tessera {
namespace {

constexpr double kOutlier = 0.3;  // beyond this logarithm an error counts linearly: one run, some cells cold

struct Candidate {
  PredictConstants constants;
  BoxSpeed box;
};

double loss(const std::vector<PublishedCell>& cells, const StepWork& work, const Candidate& c) {
  double sum = 0;
  for (const PublishedCell& cell : cells) {
    const double x =
        std::abs(std::log(predict_decode(work, c.box, c.constants, cell.question) / cell.tokens_per_s));
    sum += x < kOutlier ? x * x : 2 * kOutlier * x - kOutlier * kOutlier;
  }
  return sum;
}

struct Knob {
  std::function<double&(Candidate&)> value;
  double most;  // efficiencies and shares cannot be above 1
};
std::vector<Knob> knobs() {
  constexpr double kFree = 1e9;
  return {
      {[](Candidate& c) -> double& { return c.constants.host_ms; }, kFree},
      {[](Candidate& c) -> double& { return c.constants.dense_efficiency; }, 1},
      {[](Candidate& c) -> double& { return c.constants.expert_least; }, 1},
      {[](Candidate& c) -> double& { return c.constants.expert_most; }, 1},
      {[](Candidate& c) -> double& { return c.constants.expert_tokens; }, kFree},
      {[](Candidate& c) -> double& { return c.constants.attention[0]; }, kFree},
      {[](Candidate& c) -> double& { return c.constants.attention[1]; }, kFree},
      {[](Candidate& c) -> double& { return c.constants.attention[2]; }, kFree},
      {[](Candidate& c) -> double& { return c.constants.attention_query; }, kFree},
      {[](Candidate& c) -> double& { return c.constants.draft_seq_ms; }, kFree},
      {[](Candidate& c) -> double& { return c.constants.acceptance; }, 1},
      {[](Candidate& c) -> double& { return c.box.link_gb_s; }, kFree},
      {[](Candidate& c) -> double& { return c.box.link_us; }, kFree},
  };
}

}  // namespace

Result<std::vector<PublishedCell>> read_published_matrix(std::string_view csv, const std::string& where) {
  constexpr std::string_view kHead =
      "dcp,num_speculative_tokens,context_tokens,concurrency,tokens_per_second";
  std::vector<PublishedCell> cells;
  bool has_head = false;
  std::size_t number = 0;
  while (!csv.empty()) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    const std::string here = where + ":" + std::to_string(number);
    if (!has_head) {
      if (line != kHead)
        return Error{ErrorKind::kUnsupported, here, "The columns must be " + std::string(kHead) + "."};
      has_head = true;
      continue;
    }
    std::array<double, 5> fields{};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t comma = std::min(line.find(','), line.size());
      const auto [stop, failed] = std::from_chars(line.data(), line.data() + comma, fields[i]);
      const double least = i == 1 || i == 2 ? 0 : 1e-9;
      if (failed != std::errc() || stop != line.data() + comma || !(fields[i] >= least && fields[i] < 1e9))
        return Error{ErrorKind::kCorrupt, here, "Field " + std::to_string(i + 1) + " is no figure."};
      line.remove_prefix(std::min(comma + 1, line.size()));
    }
    cells.push_back({{.context_ranks = static_cast<int>(fields[0]),
                      .drafts = static_cast<std::int64_t>(fields[1]),
                      .context = static_cast<std::int64_t>(fields[2]),
                      .concurrency = static_cast<std::int64_t>(fields[3])},
                     fields[4]});
  }
  if (cells.size() < 40)
    return Error{
        ErrorKind::kInvalidArgument, where,
        "It has " + std::to_string(cells.size()) + " cells; a fit of 13 constants needs at least 40."};
  return cells;
}

bool is_held_out(std::size_t cell) { return (cell + cell / 8) % 4 == 3; }

FitError error_of(const std::vector<PublishedCell>& cells, const StepWork& work, const BoxSpeed& box,
                  const PredictConstants& constants) {
  std::vector<double> errors;
  for (const PublishedCell& cell : cells)
    errors.push_back(std::abs(predict_decode(work, box, constants, cell.question) / cell.tokens_per_s - 1));
  std::ranges::sort(errors);
  FitError out{.cells = errors.size()};
  if (errors.empty()) return out;
  for (const double error : errors) out.mean += error / static_cast<double>(errors.size());
  out.median = errors[errors.size() / 2];
  out.p90 = errors[errors.size() * 9 / 10];
  out.worst = errors.back();
  return out;
}

Fit fit_decode(const std::vector<PublishedCell>& cells, const StepWork& work, const BoxSpeed& box,
               const PredictConstants& start) {
  std::vector<PublishedCell> seen, held_out;
  for (std::size_t i = 0; i < cells.size(); ++i) (is_held_out(i) ? held_out : seen).push_back(cells[i]);
  Candidate best{start, box};
  double least = loss(seen, work, best);
  const std::vector<Knob> all = knobs();
  std::vector<double> strides(all.size(), 0.3);
  for (int round = 0; round < 2000 && *std::ranges::max_element(strides) > 1e-5; ++round) {
    for (std::size_t k = 0; k < all.size(); ++k) {
      bool better = false;
      for (const double direction : {1.0, -1.0}) {
        Candidate tried = best;
        double& value = all[k].value(tried);
        value = std::min(value * std::exp(direction * strides[k]), all[k].most);
        const double now = loss(seen, work, tried);
        if (now < least - 1e-12) {
          best = tried;
          least = now;
          better = true;
          break;
        }
      }
      strides[k] *= better ? 1.3 : 0.6;
    }
  }
  return {best.constants, best.box, error_of(seen, work, best.box, best.constants),
          error_of(held_out, work, best.box, best.constants)};
}

}  // namespace tessera

#include "bench/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

constexpr std::size_t kBlock = 2;  // neighbouring slices share a step and a garbage collection

const Measurement* find(const BenchReport& report, const Measurement& wanted) {
  for (const Measurement& m : report.measurements) {
    if (m.metric == wanted.metric && m.series == wanted.series && m.axes == wanted.axes) return &m;
  }
  return nullptr;
}

// Logarithms of resampled means, around 0; empty without samples.
std::vector<double> scatter(const Measurement& m, const CompareOptions& options, std::mt19937_64& random) {
  if (m.samples.size() < 2) return {};
  std::vector<double> draws = bootstrap_means(m.samples, options.draws, kBlock, random);
  const double middle = mean(m.samples);
  // Few samples scatter less among themselves than runs of their length would.
  const auto n = static_cast<double>(m.samples.size());
  const double widened = std::sqrt(n / (n - 1));
  for (double& draw : draws) draw = middle > 0 && draw > 0 ? widened * std::log(draw / middle) : 0;
  return draws;
}

struct Pair {
  const Measurement* a = nullptr;
  const Measurement* b = nullptr;
  std::vector<double> baseline;  // logarithms of A's value in every run of its configuration
  std::vector<double> noise;     // draws of the ratio's logarithm around 0, within the runs
  double sign = 1;               // of better

  double log_ratio() const { return std::log(b->value) - mean(baseline); }
};

Verdict judge(double gain, double low, double high, const CompareOptions& options) {
  if (high < 1 && gain < 1 - options.tolerance)
    return gain <= 1 - options.dramatic ? Verdict::kDramaticallyWorse : Verdict::kWorse;
  if (low > 1 && gain > 1 + options.tolerance) return Verdict::kBetter;
  return Verdict::kEqual;
}

// A draw of Student's t with so many degrees.
double draw_t(double degrees, std::mt19937_64& random) {
  return std::student_t_distribution<double>(degrees)(random);
}

class Comparer {
 public:
  Comparer(const BenchReport& a, const BenchReport& b, std::span<const BenchReport> noise_runs,
           const CompareOptions& options)
      : a_(a), b_(b), noise_runs_(noise_runs), options_(options), random_(options.seed) {}

  Comparison compare() {
    pair_up();
    std::map<std::string, std::vector<const Pair*>> groups;
    std::vector<std::string> order;
    for (const Pair& pair : pairs_) {
      if (!groups.contains(pair.a->group)) order.push_back(pair.a->group);
      groups[pair.a->group].push_back(&pair);
    }
    for (const std::string& group : order) {
      const double run_noise = cell_noise(groups[group]);
      for (const Pair* pair : groups[group]) out_.cells.push_back(cell_change(*pair, run_noise));
      if (!group.empty()) out_.groups.push_back(group_change(group, groups[group]));
    }
    return std::move(out_);
  }

 private:
  void pair_up() {
    std::size_t alone = 0;
    for (const Measurement& a : a_.measurements) {
      const Measurement* b = find(b_, a);
      if (b == nullptr) {
        ++alone;
        continue;
      }
      if (!a.counts() || !b->counts()) {
        if (a.standing != Standing::kDoesNotFit || b->standing != Standing::kDoesNotFit)
          out_.notes.push_back(a.metric + ", " + a.configuration() + ": not compared (" +
                               std::string(name_of(a.counts() ? b->standing : a.standing)) + ").");
        continue;
      }
      if (a.value <= 0 || b->value <= 0) continue;
      Pair pair{.a = &a,
                .b = b,
                .baseline = {std::log(a.value)},
                .noise = {},
                .sign = a.higher_is_better ? 1.0 : -1.0};
      for (const BenchReport& run : noise_runs_) {
        const Measurement* again = find(run, a);
        if (again != nullptr && again->counts() && again->value > 0)
          pair.baseline.push_back(std::log(again->value));
      }
      const std::vector<double> before = scatter(a, options_, random_);
      const std::vector<double> after = scatter(*b, options_, random_);
      pair.noise.assign(static_cast<std::size_t>(options_.draws), 0.0);
      const double share = 1 / std::sqrt(static_cast<double>(pair.baseline.size()));  // A's own is averaged
      for (std::size_t i = 0; i < pair.noise.size(); ++i)
        pair.noise[i] = (after.empty() ? 0 : after[i]) - (before.empty() ? 0 : share * before[i]);
      pairs_.push_back(std::move(pair));
    }
    if (alone > 0) out_.notes.push_back(std::to_string(alone) + " measurements of A are not in B.");
    if (pairs_.empty()) out_.notes.push_back("Nothing is in both.");
  }

  // Runs of A's configuration that every cell of `cells` has.
  static std::size_t runs_of(const std::vector<const Pair*>& cells) {
    std::size_t runs = cells.front()->baseline.size();
    for (const Pair* pair : cells) runs = std::min(runs, pair->baseline.size());
    return runs;
  }

  // Standard deviation of one cell between runs, all cells of the group together; 0 when no runs say it.
  static double cell_noise(const std::vector<const Pair*>& cells) {
    double squares = 0;
    double degrees = 0;
    for (const Pair* pair : cells) {
      const double one = deviation(pair->baseline);
      const auto free = static_cast<double>(pair->baseline.size() - 1);
      squares += one * one * free;
      degrees += free;
    }
    return degrees > 0 ? std::sqrt(squares / degrees) : 0;
  }

  // What is added to the scatter within runs, so that the whole is at least what was seen between runs.
  static double beyond(double between_runs, double within) {
    return std::sqrt(std::max(0.0, between_runs * between_runs - within * within));
  }

  CellChange cell_change(const Pair& pair, double run_noise) {
    const auto runs = static_cast<double>(pair.baseline.size());
    const bool measured = runs > 1;
    const double deviation_of_ratio =
        (measured ? run_noise : options_.assumed_run_noise) * std::sqrt(1 + 1 / runs);
    const double extra = beyond(deviation_of_ratio, measured ? deviation(pair.noise) : 0);
    // Cells of a run shift together, so many of them are no more evidence than one.
    const double degrees = measured ? runs - 1 : 1e6;
    std::vector<double> draws = pair.noise;
    for (double& draw : draws) draw += extra * draw_t(degrees, random_);
    CellChange change{.cell = pair.a, .before = std::exp(mean(pair.baseline)), .after = pair.b->value};
    const double log_ratio = pair.log_ratio();
    change.ratio = std::exp(log_ratio);
    change.low = std::exp(log_ratio + percentile(draws, (1 - options_.confidence) / 2));
    change.high = std::exp(log_ratio + percentile(draws, (1 + options_.confidence) / 2));
    change.verdict = pair.sign > 0 ? judge(change.ratio, change.low, change.high, options_)
                                   : judge(1 / change.ratio, 1 / change.high, 1 / change.low, options_);
    return change;
  }

  GroupChange group_change(const std::string& group, const std::vector<const Pair*>& cells) {
    const auto count = static_cast<double>(cells.size());
    GroupChange change{.group = group, .cells = cells.size()};
    double gain = 0;
    std::vector<double> draws(static_cast<std::size_t>(options_.draws), 0.0);
    for (const Pair* pair : cells) {
      gain += pair->sign * pair->log_ratio() / count;
      for (std::size_t i = 0; i < draws.size(); ++i) draws[i] += pair->sign * pair->noise[i] / count;
    }
    // How far whole runs shift: the group's mean in each run of A's configuration.
    const std::size_t runs = runs_of(cells);
    std::vector<double> shifts(runs, 0.0);
    for (std::size_t r = 0; r < runs; ++r) {
      for (const Pair* pair : cells) shifts[r] += pair->sign * pair->baseline[r] / count;
    }
    change.is_run_noise_measured = runs > 1;
    change.run_noise = runs > 1 ? std::max(deviation(shifts), cell_noise(cells) / std::sqrt(count))
                                : options_.assumed_run_noise;
    const double deviation_of_gain = change.run_noise * std::sqrt(1 + 1 / static_cast<double>(runs));
    const double extra = beyond(deviation_of_gain, runs > 1 ? deviation(draws) : 0);
    // Student's t for what was seen in few runs: the whole deviation, not what chance left of it.
    const double degrees = runs > 1 ? static_cast<double>(runs - 1) : 1e6;
    for (double& draw : draws) draw += extra * draw_t(degrees, random_);
    change.gain = std::exp(gain);
    change.low = std::exp(gain + percentile(draws, (1 - options_.confidence) / 2));
    change.high = std::exp(gain + percentile(draws, (1 + options_.confidence) / 2));
    change.verdict = judge(change.gain, change.low, change.high, options_);
    return change;
  }

  const BenchReport& a_;
  const BenchReport& b_;
  std::span<const BenchReport> noise_runs_;
  const CompareOptions& options_;
  std::mt19937_64 random_;
  std::vector<Pair> pairs_;
  Comparison out_;
};

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "better";
    case Verdict::kEqual:
      return "equal within noise";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kDramaticallyWorse:
      return "dramatically worse";
  }
  return "unknown";
}

bool Comparison::is_worse() const {
  return std::ranges::any_of(groups, [](const GroupChange& group) {
    return group.verdict == Verdict::kWorse || group.verdict == Verdict::kDramaticallyWorse;
  });
}

Comparison compare(const BenchReport& a, const BenchReport& b, std::span<const BenchReport> noise_runs,
                   const CompareOptions& options) {
  return Comparer(a, b, noise_runs, options).compare();
}

}  // namespace tessera::bench

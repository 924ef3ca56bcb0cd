// For tests: the distribution that a row of logits is to be sampled from, and how well counts fit it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "backend/sampling.h"

namespace tessera::test {

// The documented order of steps on whole sorted arrays, in f64: which tokens may be drawn, and how likely
// each is.
inline std::map<std::int32_t, double> distribution(const std::vector<float>& logits, const SamplingRow& row) {
  constexpr double none = -std::numeric_limits<double>::infinity();
  std::vector<double> l(logits.begin(), logits.end());
  const auto at = [&](std::int32_t token) -> double& { return l[static_cast<std::size_t>(token)]; };
  for (std::size_t i = 0; i < l.size() && !row.allowed.empty(); ++i) {
    if (((row.allowed[i / 64] >> (i % 64)) & 1U) == 0) l[i] = none;
  }
  for (const auto& [token, bias] : row.logit_bias) at(token) += static_cast<double>(bias);
  for (const std::int32_t token : row.banned) at(token) = none;
  std::set<std::int32_t> seen(row.prompt_tokens.begin(), row.prompt_tokens.end());
  for (const auto& [token, count] : row.out_counts) seen.insert(token);
  for (const std::int32_t token : seen) {
    const double penalty = static_cast<double>(row.repetition_penalty);
    at(token) = at(token) > 0 ? at(token) / penalty : at(token) * penalty;
  }
  for (const auto& [token, count] : row.out_counts) {
    at(token) -=
        static_cast<double>(row.frequency_penalty) * count + static_cast<double>(row.presence_penalty);
  }
  std::vector<std::int32_t> order(l.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int32_t a, std::int32_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  const double peak = at(order[0]);
  std::map<std::int32_t, double> kept;
  double total = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double weight = std::exp((at(order[i]) - peak) / static_cast<double>(row.temperature));
    if (weight == 0 || weight < static_cast<double>(row.min_p)) break;
    if (row.top_k > 0 && i >= static_cast<std::size_t>(row.top_k) &&
        at(order[i]) != at(order[static_cast<std::size_t>(row.top_k) - 1]))
      break;
    kept[order[i]] = weight;
    total += weight;
  }
  double dropped = 0;
  for (auto i = static_cast<std::int64_t>(kept.size()) - 1; i > 0 && row.top_p < 1; --i) {
    const std::int32_t token = order[static_cast<std::size_t>(i)];
    if (dropped + kept[token] > (1 - static_cast<double>(row.top_p)) * total) break;
    dropped += kept[token];
    kept.erase(token);
  }
  for (auto& [token, weight] : kept) weight /= total - dropped;
  return kept;
}

// How many standard deviations the chi-square statistic of `counts` lies above what counts drawn from
// `probabilities` give (Wilson and Hilferty's cube root; cells that expect under 5 counts are taken
// together). Above 5 happens once in 3.5 million honest draws; infinite where an impossible cell was counted.
inline double chi_square_deviation(const std::vector<double>& probabilities,
                                   const std::vector<std::int64_t>& counts) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  double sum = 0, rare_expected = 0, rare_found = 0;
  int cells = 0;
  const auto add = [&](double expected, double found) {
    sum += (found - expected) * (found - expected) / expected;
    ++cells;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * total;
    const auto found = static_cast<double>(counts[i]);
    if (expected == 0 && found > 0) return std::numeric_limits<double>::infinity();
    if (expected >= 5) {
      add(expected, found);
    } else {
      rare_expected += expected;
      rare_found += found;
    }
  }
  if (rare_expected > 0) add(rare_expected, rare_found);
  if (cells < 2) return 0;
  const double freedom = cells - 1;
  const double spread = 2 / (9 * freedom);
  return (std::cbrt(sum / freedom) - (1 - spread)) / std::sqrt(spread);
}

}  // namespace tessera::test

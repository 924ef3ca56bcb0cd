#include "backend/cpu/expert_routing.h"

#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tessera {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Index of the largest value among those not taken, the lowest of equals.
std::size_t best_of(std::span<const float> values, std::span<const bool> taken) {
  std::size_t best = values.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (taken[i]) continue;
    if (best == values.size() || values[i] > values[best]) best = i;
  }
  return best;
}

float two_best(std::span<const float> values) {
  float first = kNone;
  float second = kNone;
  for (const float value : values) {
    if (value > first) {
      second = first;
      first = value;
    } else if (value > second) {
      second = value;
    }
  }
  return values.size() == 1 ? first : first + second;
}

}  // namespace

void route_token(std::span<const float> logits, std::span<const float> bias, const RoutingRule& rule,
                 std::span<std::int32_t> ids, std::span<float> weights) {
  const std::size_t experts = logits.size();
  const auto groups = static_cast<std::size_t>(rule.groups);
  const auto top_k = static_cast<std::size_t>(rule.top_k);
  TS_DCHECK(experts <= kMostExperts && experts % groups == 0 && top_k <= experts, experts, groups, top_k);
  std::array<float, kMostExperts> score;
  std::array<float, kMostExperts> choice;
  std::array<bool, kMostExperts> taken;
  for (std::size_t e = 0; e < experts; ++e) {
    score[e] = 1.0F / (1.0F + std::exp(-logits[e]));
    choice[e] = score[e] + bias[e];
    if (std::isnan(choice[e])) choice[e] = kNone;
    taken[e] = false;
  }

  if (rule.top_groups < rule.groups) {
    const std::size_t size = experts / groups;
    std::array<float, kMostExperts> group_score;
    std::array<bool, kMostExperts> kept{};
    for (std::size_t g = 0; g < groups; ++g) {
      group_score[g] = two_best(std::span(choice).subspan(g * size, size));
    }
    for (std::int32_t i = 0; i < rule.top_groups; ++i) {
      kept[best_of(std::span(group_score).first(groups), std::span(kept).first(groups))] = true;
    }
    for (std::size_t g = 0; g < groups; ++g) {
      for (std::size_t e = g * size; e < (g + 1) * size; ++e) taken[e] = !kept[g];
    }
  }

  float sum = 0;
  for (std::size_t k = 0; k < top_k; ++k) {
    const std::size_t e = best_of(std::span(choice).first(experts), std::span(taken).first(experts));
    TS_CHECK(e < experts, rule.top_k, rule.top_groups, rule.groups, experts);
    taken[e] = true;
    ids[k] = static_cast<std::int32_t>(e);
    weights[k] = score[e];
    sum += score[e];
  }
  for (std::size_t k = 0; k < top_k; ++k) {
    const float share = rule.normalise ? weights[k] / (sum + 1e-20F) : weights[k];
    weights[k] = share * rule.scaling;
  }
}

}  // namespace tessera

#include "speculative/draft_draw.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tessera {

std::int32_t draw_draft(std::span<const float> logits, float temperature, double uniform,
                        std::span<float> probs) {
  TS_CHECK(probs.size() == logits.size() && temperature > 0, probs.size(), logits.size(), temperature);
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) return -1;
  const float peak = logits.empty() ? -HUGE_VALF : *std::ranges::max_element(logits);
  if (!std::isfinite(peak)) return -1;
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    probs[i] = std::exp((logits[i] - peak) / temperature);
    total += static_cast<double>(probs[i]);
  }
  const double target = uniform * total;
  double before = 0;
  std::int32_t chosen = -1;
  for (std::size_t i = 0; i < probs.size(); ++i) {
    if (probs[i] > 0 && (chosen < 0 || before <= target)) chosen = static_cast<std::int32_t>(i);
    before += static_cast<double>(probs[i]);
  }
  for (float& p : probs) p = static_cast<float>(static_cast<double>(p) / total);
  return chosen;
}

}  // namespace tessera

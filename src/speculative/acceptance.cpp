#include "speculative/acceptance.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tessera {
namespace {

constexpr double kSlowTries = 256;
constexpr double kFastTries = 32;
// A difference of this many standard deviations of the fast rate is a change, not noise. At one comparison a
// step, 4 would be met by chance every few thousand steps; what it costs then is only precision.
constexpr double kChangeDeviations = 4;
// A position that was never tried is believed to be as the one before it, with the weight of so many tries;
// the first, to be right half the time.
constexpr double kPriorTries = 4;
constexpr double kPriorRate = 0.5;

}  // namespace

void AcceptanceEstimate::Faded::add(double hit, double tried, double window) {
  const double keep = std::pow(1 - 1 / window, tried);
  hits = hits * keep + hit;
  tries = tries * keep + tried;
}

void AcceptanceEstimate::record(std::int32_t drafted, std::span<const std::int32_t> accepted_at) {
  TS_CHECK(accepted_at.size() <= positions_.size(), accepted_at.size(), positions_.size());
  std::int32_t tried = drafted;
  for (std::size_t i = 0; i < accepted_at.size() && tried > 0; ++i) {
    TS_CHECK(accepted_at[i] <= tried, i, accepted_at[i], tried);
    Position& position = positions_[i];
    position.slow.add(accepted_at[i], tried, kSlowTries);
    position.fast.add(accepted_at[i], tried, kFastTries);
    const double rate = std::clamp(position.slow.rate(), 0.05, 0.95);
    const double deviation = std::sqrt(rate * (1 - rate) / std::max(1.0, position.fast.tries));
    if (position.fast.tries > kFastTries / 2 &&
        std::abs(position.fast.rate() - position.slow.rate()) > kChangeDeviations * deviation) {
      position.slow = position.fast;
      ++changes_;
    }
    samples_ += tried;
    tried = accepted_at[i];
  }
}

double AcceptanceEstimate::at(std::int32_t position) const {
  double rate = kPriorRate;
  for (std::int32_t i = 0; i <= position; ++i) {
    const Faded& slow = positions_[static_cast<std::size_t>(i)].slow;
    rate = (slow.hits + kPriorTries * rate) / (slow.tries + kPriorTries);
  }
  return rate;
}

double AcceptanceEstimate::tokens(std::int32_t drafts) const {
  double all_stand = 1;
  double rate = kPriorRate;
  double sum = 1;
  for (std::int32_t i = 0; i < drafts; ++i) {
    const Faded& slow = positions_[static_cast<std::size_t>(i)].slow;
    rate = (slow.hits + kPriorTries * rate) / (slow.tries + kPriorTries);
    all_stand *= rate;
    sum += all_stand;
  }
  return sum;
}

}  // namespace tessera

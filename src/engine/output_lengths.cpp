#include "engine/output_lengths.h"

#include <algorithm>

namespace tessera {

OutputLengths::OutputLengths() { sorted_.reserve(kKept + 1); }

void OutputLengths::add(std::int32_t tokens) {
  std::int32_t& place = newest_[added_ % kKept];
  if (added_ >= kKept) sorted_.erase(std::ranges::lower_bound(sorted_, place));
  place = tokens;
  ++added_;
  sorted_.insert(std::ranges::upper_bound(sorted_, tokens), tokens);
}

std::optional<std::int32_t> OutputLengths::likely_remaining(std::int32_t generated) const {
  if (sorted_.size() < kFewest) return std::nullopt;
  const auto longer = std::ranges::upper_bound(sorted_, generated);
  const auto count = sorted_.end() - longer;
  if (count == 0) return std::max(generated, 1);
  return *(longer + (count - 1) * 9 / 10) - generated;
}

std::optional<std::int32_t> OutputLengths::longest_remaining(std::int32_t generated) const {
  if (sorted_.size() < kFewest || sorted_.back() <= generated) return std::nullopt;
  return sorted_.back() - generated;
}

}  // namespace tessera

#include "kvcache/prefix_cache.h"

#include <bit>

#include "base/check.h"

namespace tessera {

PrefixCache::PrefixCache(std::int32_t blocks) : entry_of_(static_cast<std::size_t>(blocks), -1) {
  entries_.resize(std::bit_ceil(static_cast<std::size_t>(blocks) * 2));
  mask_ = entries_.size() - 1;
}

std::size_t PrefixCache::slot_for(const BlockHash& hash) const {
  std::size_t at = home(hash);
  while (entries_[at].block.value >= 0 && entries_[at].hash != hash) at = (at + 1) & mask_;
  return at;
}

std::optional<BlockId> PrefixCache::find(const BlockHash& hash) const {
  const Entry& entry = entries_[slot_for(hash)];
  if (entry.block.value < 0) return std::nullopt;
  return entry.block;
}

bool PrefixCache::remember(const BlockHash& hash, BlockId block) {
  TS_CHECK(!is_remembered(block), block.value);
  const std::size_t at = slot_for(hash);
  if (entries_[at].block.value >= 0) return false;
  entries_[at] = {.hash = hash, .block = block};
  entry_of_[static_cast<std::size_t>(block.value)] = static_cast<std::int32_t>(at);
  ++size_;
  return true;
}

void PrefixCache::forget(BlockId block) {
  std::int32_t& entry = entry_of_[static_cast<std::size_t>(block.value)];
  if (entry < 0) return;
  // Close the gap: later entries of the run move up when the gap lies between their home and their place.
  auto gap = static_cast<std::size_t>(entry);
  for (std::size_t at = (gap + 1) & mask_; entries_[at].block.value >= 0; at = (at + 1) & mask_) {
    const std::size_t from_home = (at - home(entries_[at].hash)) & mask_;
    const std::size_t from_gap = (at - gap) & mask_;
    if (from_home < from_gap) continue;
    entries_[gap] = entries_[at];
    entry_of_[static_cast<std::size_t>(entries_[gap].block.value)] = static_cast<std::int32_t>(gap);
    gap = at;
  }
  entries_[gap] = {};
  entry = -1;
  --size_;
}

void PrefixCache::check_invariants() const {
  std::int32_t found = 0;
  for (std::size_t i = 0; i < entry_of_.size(); ++i) {
    if (entry_of_[i] < 0) continue;
    const auto at = static_cast<std::size_t>(entry_of_[i]);
    const Entry& entry = entries_[at];
    TS_CHECK(static_cast<std::size_t>(entry.block.value) == i, entry.block.value, i);
    TS_CHECK(slot_for(entry.hash) == at, at);
    ++found;
  }
  TS_CHECK(found == size_, found, size_);
}

}  // namespace tessera

#include "kvcache/kv_cache.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace tessera {

KvCache::KvCache(std::int32_t ranks, std::int32_t blocks_per_rank, std::int32_t block_size, HashKey key)
    : pool_(ranks, blocks_per_rank), cache_(pool_.size()), block_size_(block_size), key_(key) {
  TS_CHECK(block_size > 0, block_size);
}

double KvCache::usage() const {
  std::int64_t free = 0;
  for (std::int32_t rank = 0; rank < ranks(); ++rank) free += pool_.free_on(rank);
  return 1.0 - static_cast<double>(free) / pool_.size();
}

double KvCache::usage(std::int32_t rank) const {
  return 1.0 - static_cast<double>(pool_.free_on(rank)) / pool_.blocks_per_rank();
}

void KvCache::reserve(SequenceBlocks& blocks, std::int32_t count) const {
  TS_CHECK(blocks.ids.empty(), blocks.ids.size());
  blocks.ids.reserve(static_cast<std::size_t>(count));
  blocks.owned.assign(static_cast<std::size_t>(ranks()), 0);
}

bool KvCache::has_room_everywhere(std::int32_t count) const {
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    if (pool_.free_on(rank) < count) return false;
  }
  return true;
}

bool KvCache::grow(SequenceBlocks& blocks, std::int32_t count) {
  if (blocks.spread == Spread::kReplicated) {
    if (!has_room_everywhere(count)) return false;
  } else {
    std::int32_t free = 0;
    for (std::int32_t rank = 0; rank < ranks() && free < count; ++rank) free += pool_.free_on(rank);
    if (free < count) return false;
  }
  for (; count > 0; --count) {
    const BlockId taken = pool_.take(choose_owner(blocks), blocks.spread);
    for (const BlockId lost : pool_.overwritten()) {
      if (!cache_.is_remembered(lost)) continue;
      cache_.forget(lost);
      ++evictions_;
    }
    append(blocks, taken);
  }
  return true;
}

std::int32_t KvCache::choose_owner(const SequenceBlocks& blocks) const {
  const auto cost = [&](std::int32_t rank) {
    return std::tuple(pool_.free_on(rank) == 0, blocks.owned[static_cast<std::size_t>(rank)],
                      -pool_.free_on(rank));
  };
  std::int32_t best = 0;
  for (std::int32_t rank = 1; rank < ranks(); ++rank) {
    if (cost(rank) < cost(best)) best = rank;
  }
  return best;
}

void KvCache::append(SequenceBlocks& blocks, BlockId block) const {
  blocks.ids.push_back(block);
  ++blocks.owned[static_cast<std::size_t>(pool_.owner(block))];
}

void KvCache::shard(SequenceBlocks& blocks) {
  TS_CHECK(blocks.spread == Spread::kReplicated);
  for (const BlockId block : blocks.ids) {
    pool_.shard(block);
    // Rows that the block still lacks will come to its owner alone.
    if (!cache_.is_remembered(block)) pool_.drop_free_copies(block);
  }
  blocks.spread = Spread::kSharded;
}

KvCache::Hit KvCache::find(std::span<const BlockHash> chain) const {
  Hit hit;
  for (const BlockHash& hash : chain) {
    const auto block = cache_.find(hash);
    if (!block) break;
    ++hit.blocks;
    const std::int32_t references = pool_.references(*block);
    if (references > 0) ++hit.in_use;
    if (references == 1) ++hit.held_once;
    if (pool_.is_everywhere(*block)) ++hit.everywhere;
  }
  return hit;
}

void KvCache::share(std::span<const BlockHash> chain, SequenceBlocks& blocks) {
  for (const BlockHash& hash : chain) {
    const auto block = cache_.find(hash);
    TS_CHECK(block.has_value(), blocks.size(), chain.size());
    pool_.share(*block, blocks.spread);
    append(blocks, *block);
  }
}

void KvCache::give_back(SequenceBlocks& blocks) {
  for (auto block = blocks.ids.rbegin(); block != blocks.ids.rend(); ++block) {
    pool_.give_back(*block, blocks.spread,
                    cache_.is_remembered(*block) ? BlockPool::Keep::kLongest : BlockPool::Keep::kNotAtAll);
  }
  blocks.ids.clear();
  std::ranges::fill(blocks.owned, 0);
}

std::int32_t KvCache::exclusive(const SequenceBlocks& blocks) const {
  const auto first =
      std::ranges::partition_point(blocks.ids, [&](BlockId b) { return pool_.references(b) > 1; });
  return static_cast<std::int32_t>(blocks.ids.end() - first);
}

void KvCache::check_invariants() const {
  pool_.check_invariants();
  cache_.check_invariants();
}

}  // namespace tessera

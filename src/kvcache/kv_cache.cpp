#include "kvcache/kv_cache.h"

#include <algorithm>
#include <ranges>

#include "base/check.h"

namespace tessera {

KvCache::KvCache(std::int32_t blocks, std::int32_t block_size, HashKey key)
    : pool_(blocks), cache_(blocks), block_size_(block_size), key_(key) {
  TS_CHECK(block_size > 0, block_size);
}

bool KvCache::take(std::span<BlockId> taken) {
  if (!pool_.take(taken)) return false;
  for (const BlockId block : taken) {
    if (!cache_.is_remembered(block)) continue;
    cache_.forget(block);
    ++evictions_;
  }
  return true;
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
  }
  return hit;
}

void KvCache::share(std::span<const BlockHash> chain, std::vector<BlockId>& blocks) {
  for (const BlockHash& hash : chain) {
    const auto block = cache_.find(hash);
    TS_CHECK(block.has_value(), blocks.size(), chain.size());
    pool_.share(*block);
    blocks.push_back(*block);
  }
}

void KvCache::give_back(std::span<const BlockId> blocks) {
  for (const BlockId block : std::views::reverse(blocks)) {
    pool_.give_back(block,
                    cache_.is_remembered(block) ? BlockPool::Keep::kLongest : BlockPool::Keep::kNotAtAll);
  }
}

std::int32_t KvCache::exclusive(std::span<const BlockId> blocks) const {
  const auto first = std::ranges::partition_point(blocks, [&](BlockId b) { return pool_.references(b) > 1; });
  return static_cast<std::int32_t>(blocks.end() - first);
}

void KvCache::check_invariants() const {
  pool_.check_invariants();
  cache_.check_invariants();
}

}  // namespace tessera

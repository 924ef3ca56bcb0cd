// The KV pool as the scheduler uses it: a block pool and a prefix cache kept in step. A block that is free
// but remembered can still be found; it is forgotten at the moment it is handed out for new content.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"
#include "kvcache/prefix_cache.h"

namespace tessera {

class KvCache {
 public:
  // block_size: tokens.
  KvCache(std::int32_t blocks, std::int32_t block_size, HashKey key);

  std::int32_t block_size() const { return block_size_; }
  std::int32_t blocks() const { return pool_.size(); }
  std::int32_t free_blocks() const { return pool_.free_blocks(); }
  std::int32_t used_blocks() const { return pool_.used_blocks(); }
  std::int32_t references(BlockId block) const { return pool_.references(block); }
  HashKey key() const { return key_; }
  std::int32_t blocks_for(std::int64_t tokens) const {
    return static_cast<std::int32_t>((tokens + block_size_ - 1) / block_size_);
  }

  // Fills `taken` with blocks for new content, or changes nothing and says false.
  bool take(std::span<BlockId> taken);

  // What the cache holds of a chain of hashes: its first `blocks` blocks.
  struct Hit {
    std::int32_t blocks = 0;
    std::int32_t in_use = 0;     // of these, held by somebody now, and so free of cost to share
    std::int32_t held_once = 0;  // of these, held by one alone
  };
  Hit find(std::span<const BlockHash> chain) const;
  // Takes a hold on the blocks that find() reported for this chain: chain.size() of them, nothing having
  // changed since.
  void share(std::span<const BlockHash> chain, std::vector<BlockId>& blocks);

  // The block's rows are complete. False when another block already stands for this content.
  bool remember(const BlockHash& hash, BlockId block) { return cache_.remember(hash, block); }

  // One holder less for each, in order of position; the last position is the first to be overwritten later.
  void give_back(std::span<const BlockId> blocks);

  // How many at the end of a sequence's blocks nobody else holds: what giving it back would free. Blocks are
  // shared from the front, so this is a binary search; two copies of one prefix that were computed side by
  // side can make it count too many.
  std::int32_t exclusive(std::span<const BlockId> blocks) const;

  std::int32_t remembered_blocks() const { return cache_.size(); }
  std::int64_t evictions() const { return evictions_; }  // remembered blocks that were overwritten

  void check_invariants() const;

 private:
  BlockPool pool_;
  PrefixCache cache_;
  std::int32_t block_size_;
  HashKey key_;
  std::int64_t evictions_ = 0;
};

}  // namespace tessera

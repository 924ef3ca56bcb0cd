// The KV pool as the scheduler uses it: a block pool and a prefix cache kept in step. A block that is free
// but remembered can still be found; it is forgotten at the moment its last copy is handed out for new
// content.
//
// Also the policy of placement: a new block belongs to the rank that owns the fewest blocks of its sequence,
// so that the ranks of a sharded sequence have equal work; of several, to the one with the most free memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"
#include "kvcache/prefix_cache.h"

namespace tessera {

// The blocks of one sequence, in order of position.
struct SequenceBlocks {
  std::vector<BlockId> ids;
  std::vector<std::int32_t> owned;  // [ranks] how many of them each rank owns
  Spread spread = Spread::kReplicated;

  std::int32_t size() const { return static_cast<std::int32_t>(ids.size()); }
};

class KvCache {
 public:
  // block_size: tokens.
  KvCache(std::int32_t ranks, std::int32_t blocks_per_rank, std::int32_t block_size, HashKey key);

  std::int32_t ranks() const { return pool_.ranks(); }
  std::int32_t block_size() const { return block_size_; }
  // Blocks that can be held at once when each has one copy; of these, the ones that nobody holds and the
  // others.
  std::int32_t blocks() const { return pool_.size(); }
  std::int32_t free_blocks() const { return pool_.free_blocks(); }
  std::int32_t used_blocks() const { return pool_.used_blocks(); }
  // Memory in use over all ranks, copies counted, as a share of all.
  double usage() const;
  // Likewise of one rank's memory.
  double usage(std::int32_t rank) const;
  std::int32_t references(BlockId block) const { return pool_.references(block); }
  std::int32_t owner(BlockId block) const { return pool_.owner(block); }
  std::int32_t place(BlockId block, std::int32_t rank) const { return pool_.place(block, rank); }
  HashKey key() const { return key_; }
  std::int32_t blocks_for(std::int64_t tokens) const {
    return static_cast<std::int32_t>((tokens + block_size_ - 1) / block_size_);
  }

  // An empty list with room for `blocks`, so that growing does not allocate.
  void reserve(SequenceBlocks& blocks, std::int32_t count) const;
  // Appends `count` blocks for new content, or changes nothing and says false.
  bool grow(SequenceBlocks& blocks, std::int32_t count);
  // Whether every rank has free memory for as many blocks.
  bool has_room_everywhere(std::int32_t count) const;
  // From replicated to sharded: what lies on ranks that do not own it is free, unless others hold it
  // replicated. Moves no rows.
  void shard(SequenceBlocks& blocks);

  // What the cache holds of a chain of hashes: its first `blocks` blocks.
  struct Hit {
    std::int32_t blocks = 0;
    std::int32_t in_use = 0;      // of these, held by somebody now, and so free of cost to share
    std::int32_t held_once = 0;   // of these, held by one alone
    std::int32_t everywhere = 0;  // of these, with a copy on every rank
  };
  Hit find(std::span<const BlockHash> chain) const;
  // Takes a hold on the blocks that find() reported for this chain: chain.size() of them, nothing having
  // changed since. A replicated list needs them everywhere.
  void share(std::span<const BlockHash> chain, SequenceBlocks& blocks);

  // The block's rows are complete. False when another block already stands for this content.
  bool remember(const BlockHash& hash, BlockId block) { return cache_.remember(hash, block); }

  // One holder less for each, and the list is empty; the last position is the first to be overwritten later.
  void give_back(SequenceBlocks& blocks);

  // How many at the end of a sequence's blocks nobody else holds: what giving it back would free. Blocks are
  // shared from the front, so this is a binary search; two copies of one prefix that were computed side by
  // side can make it count too many.
  std::int32_t exclusive(const SequenceBlocks& blocks) const;

  std::int32_t remembered_blocks() const { return cache_.size(); }
  std::int64_t evictions() const { return evictions_; }  // remembered blocks that were overwritten

  void check_invariants() const;

 private:
  std::int32_t choose_owner(const SequenceBlocks& blocks) const;
  void append(SequenceBlocks& blocks, BlockId block) const;

  BlockPool pool_;
  PrefixCache cache_;
  std::int32_t block_size_;
  HashKey key_;
  std::int64_t evictions_ = 0;
};

}  // namespace tessera

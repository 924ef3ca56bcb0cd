// Which block holds which content: a table from the hash of a full block (and of everything before it) to the
// block. Neither counts references nor decides what is evicted; KvCache does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvcache/block_hash.h"
#include "kvcache/block_pool.h"

namespace tessera {

class PrefixCache {
 public:
  explicit PrefixCache(std::int32_t blocks);

  std::optional<BlockId> find(const BlockHash& hash) const;
  // The block can be found from now on. False, and nothing changes, when another block already has this
  // content.
  bool remember(const BlockHash& hash, BlockId block);
  // The block's rows are about to be overwritten.
  void forget(BlockId block);

  bool is_remembered(BlockId block) const { return entry_of_[static_cast<std::size_t>(block.value)] >= 0; }
  std::int32_t size() const { return size_; }

  void check_invariants() const;

 private:
  // Open addressing with linear probing, at most half full, so that remembering and forgetting never
  // allocate.
  struct Entry {
    BlockHash hash;
    BlockId block;  // -1: empty
  };
  std::size_t home(const BlockHash& hash) const { return static_cast<std::size_t>(hash.low) & mask_; }
  std::size_t slot_for(const BlockHash& hash) const;  // where it is, or the empty entry where it would go

  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
  std::vector<std::int32_t> entry_of_;  // [blocks] index into entries_, -1: not remembered
  std::int32_t size_ = 0;
};

}  // namespace tessera

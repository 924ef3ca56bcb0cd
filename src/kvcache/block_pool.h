// The blocks of a KV pool as numbers: who holds how many, on which ranks their rows lie, which are free, in
// which order free ones are handed out. Knows nothing of what a block contains.
//
// Every rank of a decode context parallel group has memory for the same number of blocks. A block's rows lie
// in the memory of one rank, its owner, or as copies on every rank; merging attention by log-sum-exp is exact
// for either (docs/explanation/context-parallelism.md). A sequence holds its blocks sharded (it reads the
// owner's copy) or replicated (each rank reads its own). So a copy is in use while somebody holds the block,
// if it is the owner's, and while somebody holds it replicated, if it is another's; all other memory is free.
// With one rank the two are the same.
//
// Free memory keeps its rows until it is handed out again, so a rank's free list is at the same time the
// order in which cached prefixes are lost: its front goes first.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

struct BlockId {
  std::int32_t value = -1;
  friend auto operator<=>(BlockId, BlockId) = default;
};

enum class Spread : std::uint8_t {
  kReplicated,  // every rank has all rows
  kSharded      // each row is read on the rank that owns its block
};

// Numbers [0, size) in an order of their own: those that are linked.
class FreeList {
 public:
  explicit FreeList(std::int32_t size);  // all linked, in order

  std::int32_t count() const { return count_; }
  bool is_linked(std::int32_t i) const { return links_[static_cast<std::size_t>(i)].next >= 0; }
  std::int32_t front() const { return links_.back().next; }  // the list is not empty
  void unlink(std::int32_t i);
  void push_front(std::int32_t i) { link_after(i, anchor()); }
  void push_back(std::int32_t i) { link_after(i, links_.back().previous); }

  void check_invariants() const;

 private:
  // A ring whose last entry is its anchor: next = front, previous = back.
  struct Link {
    std::int32_t previous = -1;
    std::int32_t next = -1;
  };
  std::int32_t anchor() const { return static_cast<std::int32_t>(links_.size()) - 1; }
  void link_after(std::int32_t i, std::int32_t position);

  std::vector<Link> links_;  // [size + 1]; an unlinked entry's are -1
  std::int32_t count_ = 0;
};

class BlockPool {
 public:
  static constexpr std::int32_t kMostRanks = 64;

  BlockPool(std::int32_t ranks, std::int32_t blocks_per_rank);

  std::int32_t ranks() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t blocks_per_rank() const { return blocks_per_rank_; }
  // Blocks that can be held at once when each has one copy; of these, not held by anybody.
  std::int32_t size() const { return static_cast<std::int32_t>(references_.size()); }
  std::int32_t free_blocks() const { return size() - used_; }
  std::int32_t used_blocks() const { return used_; }
  // Memory of a rank that is not in use.
  std::int32_t free_on(std::int32_t rank) const { return free_[static_cast<std::size_t>(rank)].count(); }

  std::int32_t references(BlockId block) const { return references_[index(block)]; }
  std::int32_t owner(BlockId block) const { return owner_[index(block)]; }
  // Where the block's rows lie in the rank's memory, in [0, blocks_per_rank), or -1.
  std::int32_t place(BlockId block, std::int32_t rank) const { return places_[index(block, rank)]; }
  bool is_everywhere(BlockId block) const;

  // A block for new content, held once; the rank, or every rank, has free memory.
  BlockId take(std::int32_t owner, Spread spread);
  // The blocks that the last take() overwrote: their ids are unused now, or used by the block taken.
  std::span<const BlockId> overwritten() const { return overwritten_; }
  // One more holder; replicated only where is_everywhere().
  void share(BlockId block, Spread spread);
  // One replicated holder becomes a sharded one.
  void shard(BlockId block);
  // Forgets the copies that nobody holds, besides the owner's: their rows are not the block's.
  void drop_free_copies(BlockId block);

  enum class Keep : std::uint8_t {
    kLongest,  // last of the free list: its rows may be wanted again
    kNotAtAll  // first of the free list: nobody can find its rows
  };
  // One holder less.
  void give_back(BlockId block, Spread spread, Keep keep);

  // Aborts when free lists, copies and holders contradict each other. O(blocks), for tests.
  void check_invariants() const;

 private:
  std::size_t index(BlockId block) const;
  std::size_t index(BlockId block, std::int32_t rank) const {
    return index(block) * free_.size() + static_cast<std::size_t>(rank);
  }
  bool is_in_use(BlockId block, std::int32_t rank) const {
    return references(block) > 0 && (rank == owner(block) || replicated_[index(block)] > 0);
  }
  void settle(BlockId block, Keep keep);
  std::int32_t reclaim(std::int32_t rank);
  void drop_copy(BlockId block, std::int32_t rank);

  std::int32_t blocks_per_rank_;
  std::int32_t used_ = 0;
  std::vector<std::int32_t> references_;  // [size] holders
  std::vector<std::int32_t> replicated_;  // [size] of these, the replicated ones
  std::vector<std::int32_t> owner_;       // [size]
  std::vector<std::int32_t> places_;      // [size, ranks]
  std::vector<std::int32_t> content_;     // [ranks, blocks_per_rank] the block whose rows lie there, or -1
  std::vector<FreeList> free_;            // [ranks]
  std::vector<BlockId> unused_;           // ids without a copy anywhere
  std::vector<BlockId> overwritten_;
};

}  // namespace tessera

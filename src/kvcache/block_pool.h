// The blocks of a KV pool as numbers: who holds how many, which are free, in which order free ones are handed
// out. Knows nothing of what a block contains.
//
// A free block keeps its rows until it is handed out again, so the free list is at the same time the order in
// which cached prefixes are lost: its front goes first.
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

class BlockPool {
 public:
  explicit BlockPool(std::int32_t blocks);

  std::int32_t size() const { return static_cast<std::int32_t>(references_.size()); }
  std::int32_t free_blocks() const { return free_; }
  std::int32_t used_blocks() const { return size() - free_; }
  std::int32_t references(BlockId block) const { return references_[index(block)]; }

  // Fills `taken` with free blocks, each then held once, or changes nothing and says false.
  bool take(std::span<BlockId> taken);
  // One more holder; a free block leaves the free list.
  void share(BlockId block);

  enum class Keep : std::uint8_t {
    kLongest,  // last of the free list: its rows may be wanted again
    kNotAtAll  // first of the free list: nobody can find its rows
  };
  // One holder less. The block is free when it was the last.
  void give_back(BlockId block, Keep keep);

  // Aborts when the free list and the reference counts contradict each other. O(blocks), for tests.
  void check_invariants() const;

 private:
  // The free list is a ring through `links_`, whose last entry is its anchor: next = front, previous = back.
  struct Link {
    std::int32_t previous = 0;
    std::int32_t next = 0;
  };
  std::size_t index(BlockId block) const;
  void unlink(std::int32_t block);
  void link_after(std::int32_t block, std::int32_t position);

  std::vector<std::int32_t> references_;  // [blocks], 0: free
  std::vector<Link> links_;               // [blocks + 1]; a held block's links are -1
  std::int32_t free_ = 0;
};

}  // namespace tessera

#include "kvcache/block_pool.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tessera {

FreeList::FreeList(std::int32_t size) : links_(static_cast<std::size_t>(size) + 1), count_(size) {
  const std::int32_t ring = size + 1;
  for (std::int32_t i = 0; i < ring; ++i) {
    links_[static_cast<std::size_t>(i)] = {.previous = (i + ring - 1) % ring, .next = (i + 1) % ring};
  }
}

void FreeList::unlink(std::int32_t i) {
  Link& link = links_[static_cast<std::size_t>(i)];
  links_[static_cast<std::size_t>(link.previous)].next = link.next;
  links_[static_cast<std::size_t>(link.next)].previous = link.previous;
  link = {};
  --count_;
}

void FreeList::link_after(std::int32_t i, std::int32_t position) {
  const std::int32_t next = links_[static_cast<std::size_t>(position)].next;
  links_[static_cast<std::size_t>(i)] = {.previous = position, .next = next};
  links_[static_cast<std::size_t>(position)].next = i;
  links_[static_cast<std::size_t>(next)].previous = i;
  ++count_;
}

void FreeList::check_invariants() const {
  std::int32_t walked = 0;
  for (std::int32_t i = front(); i != anchor(); i = links_[static_cast<std::size_t>(i)].next) {
    TS_CHECK(links_[static_cast<std::size_t>(links_[static_cast<std::size_t>(i)].next)].previous == i, i);
    TS_CHECK(++walked <= count_, walked, count_);
  }
  TS_CHECK(walked == count_, walked, count_);
}

BlockPool::BlockPool(std::int32_t ranks, std::int32_t blocks_per_rank) : blocks_per_rank_(blocks_per_rank) {
  TS_CHECK(ranks > 0 && ranks <= kMostRanks && blocks_per_rank > 0, ranks, blocks_per_rank);
  const auto size = static_cast<std::size_t>(ranks) * static_cast<std::size_t>(blocks_per_rank);
  references_.assign(size, 0);
  replicated_.assign(size, 0);
  owner_.assign(size, 0);
  places_.assign(size * static_cast<std::size_t>(ranks), -1);
  content_.assign(size, -1);
  free_.assign(static_cast<std::size_t>(ranks), FreeList(blocks_per_rank));
  unused_.reserve(size);
  for (auto id = static_cast<std::int32_t>(size); id-- > 0;) unused_.push_back({id});
  overwritten_.reserve(static_cast<std::size_t>(ranks));
}

std::size_t BlockPool::index(BlockId block) const {
  TS_DCHECK(block.value >= 0 && block.value < size(), block.value, size());
  return static_cast<std::size_t>(block.value);
}

bool BlockPool::is_everywhere(BlockId block) const {
  const auto first = places_.begin() + static_cast<std::ptrdiff_t>(index(block, 0));
  return std::all_of(first, first + ranks(), [](std::int32_t place) { return place >= 0; });
}

BlockId BlockPool::take(std::int32_t owner, Spread spread) {
  overwritten_.clear();
  const bool everywhere = spread == Spread::kReplicated;
  const std::int32_t first = everywhere ? 0 : owner;
  const std::int32_t last = everywhere ? ranks() : owner + 1;
  for (std::int32_t rank = first; rank < last; ++rank) TS_CHECK(free_on(rank) > 0, rank, owner, used_);
  // All memory is found before the id: what is overwritten may be what frees it.
  std::array<std::int32_t, kMostRanks> places;
  for (std::int32_t rank = first; rank < last; ++rank) places[static_cast<std::size_t>(rank)] = reclaim(rank);
  TS_CHECK(!unused_.empty(), used_, size());
  const BlockId block = unused_.back();
  unused_.pop_back();
  for (std::int32_t rank = first; rank < last; ++rank) {
    const std::int32_t at = places[static_cast<std::size_t>(rank)];
    places_[index(block, rank)] = at;
    content_[static_cast<std::size_t>(rank * blocks_per_rank_ + at)] = block.value;
  }
  owner_[index(block)] = owner;
  references_[index(block)] = 1;
  replicated_[index(block)] = everywhere ? 1 : 0;
  ++used_;
  return block;
}

// Memory of the rank, no longer in its free list and without content.
std::int32_t BlockPool::reclaim(std::int32_t rank) {
  FreeList& free = free_[static_cast<std::size_t>(rank)];
  const std::int32_t place = free.front();
  free.unlink(place);
  std::int32_t& content = content_[static_cast<std::size_t>(rank * blocks_per_rank_ + place)];
  if (content >= 0) drop_copy({content}, rank);
  content = -1;
  return place;
}

void BlockPool::drop_copy(BlockId block, std::int32_t rank) {
  places_[index(block, rank)] = -1;
  if (rank != owner(block)) return;
  // Nobody holds it, or the owner's copy would be in use; another copy stands for the content from now on, if
  // any.
  for (std::int32_t other = 0; other < ranks(); ++other) {
    if (place(block, other) < 0) continue;
    owner_[index(block)] = other;
    return;
  }
  overwritten_.push_back(block);
  unused_.push_back(block);
}

// Brings the block's copies into the free lists or out of them, after its holders changed.
void BlockPool::settle(BlockId block, Keep keep) {
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    const std::int32_t at = place(block, rank);
    if (at < 0) continue;
    FreeList& free = free_[static_cast<std::size_t>(rank)];
    if (is_in_use(block, rank) != free.is_linked(at)) continue;
    if (free.is_linked(at)) {
      free.unlink(at);
    } else if (keep == Keep::kLongest) {
      free.push_back(at);
    } else {
      free.push_front(at);
    }
  }
}

void BlockPool::share(BlockId block, Spread spread) {
  if (references_[index(block)]++ == 0) ++used_;
  if (spread == Spread::kReplicated) {
    TS_DCHECK(is_everywhere(block), block.value);
    ++replicated_[index(block)];
  }
  settle(block, Keep::kLongest);
}

void BlockPool::shard(BlockId block) {
  TS_CHECK(replicated_[index(block)] > 0, block.value);
  --replicated_[index(block)];
  settle(block, Keep::kNotAtAll);  // the owner's copy is as good as the others'
}

void BlockPool::drop_free_copies(BlockId block) {
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    const std::int32_t at = place(block, rank);
    if (at < 0 || rank == owner(block) || is_in_use(block, rank)) continue;
    content_[static_cast<std::size_t>(rank * blocks_per_rank_ + at)] = -1;
    places_[index(block, rank)] = -1;
  }
}

void BlockPool::give_back(BlockId block, Spread spread, Keep keep) {
  std::int32_t& references = references_[index(block)];
  TS_CHECK(references > 0, block.value);
  if (--references == 0) --used_;
  if (spread == Spread::kReplicated) --replicated_[index(block)];
  settle(block, references > 0 ? Keep::kNotAtAll : keep);
}

void BlockPool::check_invariants() const {
  for (const FreeList& list : free_) list.check_invariants();
  std::vector<std::int32_t> in_use(free_.size(), 0);
  std::int32_t used = 0;
  for (std::int32_t b = 0; b < size(); ++b) {
    const BlockId block{b};
    const std::int32_t replicated = replicated_[index(block)];
    TS_CHECK(replicated >= 0 && replicated <= references(block), b, replicated, references(block));
    TS_CHECK(references(block) == 0 || place(block, owner(block)) >= 0, b, owner(block));
    TS_CHECK(replicated == 0 || is_everywhere(block), b, replicated);
    if (references(block) > 0) ++used;
    for (std::int32_t rank = 0; rank < ranks(); ++rank) {
      const std::int32_t at = place(block, rank);
      if (at < 0) continue;
      TS_CHECK(content_[static_cast<std::size_t>(rank * blocks_per_rank_ + at)] == b, b, rank, at);
      const bool free = free_[static_cast<std::size_t>(rank)].is_linked(at);
      TS_CHECK(free != is_in_use(block, rank), b, rank, free);
      if (!free) ++in_use[static_cast<std::size_t>(rank)];
    }
  }
  TS_CHECK(used == used_, used, used_);
  for (std::int32_t rank = 0; rank < ranks(); ++rank) {
    const std::int32_t held = in_use[static_cast<std::size_t>(rank)];
    TS_CHECK(held + free_on(rank) == blocks_per_rank_, rank, held, free_on(rank));
  }
}

}  // namespace tessera

#include "kvcache/block_pool.h"

#include "base/check.h"

namespace tessera {

BlockPool::BlockPool(std::int32_t blocks) {
  TS_CHECK(blocks > 0, blocks);
  references_.assign(static_cast<std::size_t>(blocks), 0);
  links_.resize(static_cast<std::size_t>(blocks) + 1);
  const auto ring = static_cast<std::int32_t>(links_.size());
  for (std::int32_t i = 0; i < ring; ++i) {
    links_[static_cast<std::size_t>(i)] = {.previous = (i + ring - 1) % ring, .next = (i + 1) % ring};
  }
  free_ = blocks;
}

std::size_t BlockPool::index(BlockId block) const {
  TS_DCHECK(block.value >= 0 && block.value < size(), block.value, size());
  return static_cast<std::size_t>(block.value);
}

void BlockPool::unlink(std::int32_t block) {
  Link& link = links_[static_cast<std::size_t>(block)];
  links_[static_cast<std::size_t>(link.previous)].next = link.next;
  links_[static_cast<std::size_t>(link.next)].previous = link.previous;
  link = {.previous = -1, .next = -1};
  --free_;
}

void BlockPool::link_after(std::int32_t block, std::int32_t position) {
  const std::int32_t next = links_[static_cast<std::size_t>(position)].next;
  links_[static_cast<std::size_t>(block)] = {.previous = position, .next = next};
  links_[static_cast<std::size_t>(position)].next = block;
  links_[static_cast<std::size_t>(next)].previous = block;
  ++free_;
}

bool BlockPool::take(std::span<BlockId> taken) {
  if (static_cast<std::size_t>(free_) < taken.size()) return false;
  const Link& anchor = links_.back();
  for (BlockId& block : taken) {
    block = {anchor.next};
    unlink(block.value);
    references_[index(block)] = 1;
  }
  return true;
}

void BlockPool::share(BlockId block) {
  if (references_[index(block)]++ == 0) unlink(block.value);
}

void BlockPool::give_back(BlockId block, Keep keep) {
  std::int32_t& references = references_[index(block)];
  TS_CHECK(references > 0, block.value);
  if (--references > 0) return;
  link_after(block.value, keep == Keep::kLongest ? links_.back().previous : size());
}

void BlockPool::check_invariants() const {
  std::int32_t unheld = 0;
  for (std::int32_t i = 0; i < size(); ++i) {
    const std::int32_t references = references_[static_cast<std::size_t>(i)];
    TS_CHECK(references >= 0, i, references);
    const bool linked = links_[static_cast<std::size_t>(i)].next != -1;
    TS_CHECK(linked == (references == 0), i, references, linked);
    if (references == 0) ++unheld;
  }
  TS_CHECK(unheld == free_, unheld, free_);
  std::int32_t walked = 0;
  for (std::int32_t i = links_.back().next; i != size(); i = links_[static_cast<std::size_t>(i)].next) {
    TS_CHECK(links_[static_cast<std::size_t>(links_[static_cast<std::size_t>(i)].next)].previous == i, i);
    TS_CHECK(++walked <= free_, walked, free_);
  }
  TS_CHECK(walked == free_, walked, free_);
}

}  // namespace tessera

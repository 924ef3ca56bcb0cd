#include "speculative/ngram_index.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kFirstCapacity = 256;  // a power of two, as all later ones

}  // namespace

NgramIndex::NgramIndex(std::int32_t shortest, std::int32_t longest)
    : shortest_(shortest), tables_(static_cast<std::size_t>(longest - shortest + 1)) {
  TS_CHECK(shortest >= 1 && longest >= shortest, shortest, longest);
}

void NgramIndex::clear() {
  tokens_.clear();
  for (Table& table : tables_) {
    std::ranges::fill(table.follows, 0);
    table.used = 0;
  }
}

// Of the n tokens before `position`.
std::uint64_t NgramIndex::hash_before(std::int32_t position, std::int32_t n) const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::int32_t i = position - n; i < position; ++i) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens_[static_cast<std::size_t>(i)])) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return hash;
}

bool NgramIndex::same_run(std::int32_t a, std::int32_t b, std::int32_t n) const {
  return std::equal(tokens_.begin() + (a - n), tokens_.begin() + a, tokens_.begin() + (b - n));
}

// Where the run before `position` lies, or would lie.
std::size_t NgramIndex::place_of(const Table& table, std::int32_t position, std::int32_t n) const {
  const std::size_t mask = table.follows.size() - 1;
  std::size_t at = hash_before(position, n) & mask;
  while (table.follows[at] != 0 && !same_run(table.follows[at], position, n)) at = (at + 1) & mask;
  return at;
}

void NgramIndex::put(Table& table, std::int32_t position, std::int32_t n) {
  if (2 * (table.used + 1) > static_cast<std::int64_t>(table.follows.size())) {
    std::vector<std::int32_t> before(std::max(kFirstCapacity, 2 * table.follows.size()), 0);
    std::swap(before, table.follows);
    for (const std::int32_t old : before) {
      if (old != 0) table.follows[place_of(table, old, n)] = old;
    }
  }
  std::int32_t& entry = table.follows[place_of(table, position, n)];
  table.used += entry == 0 ? 1 : 0;
  entry = position;
}

void NgramIndex::append(std::int32_t token) {
  const auto position = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const std::int32_t n = shortest_ + static_cast<std::int32_t>(i);
    if (position >= n) put(tables_[i], position, n);
  }
}

void NgramIndex::lookup(std::int32_t count, std::vector<std::int32_t>& found) const {
  found.clear();
  const auto end = static_cast<std::int32_t>(tokens_.size());
  for (std::size_t i = tables_.size(); i-- > 0;) {
    const std::int32_t n = shortest_ + static_cast<std::int32_t>(i);
    if (end <= n || tables_[i].used == 0) continue;
    const std::int32_t follows = tables_[i].follows[place_of(tables_[i], end, n)];
    if (follows == 0) continue;
    for (std::int32_t k = 0; k < count; ++k) {
      const std::int32_t from = follows + k;
      found.push_back(from < end ? tokens_[static_cast<std::size_t>(from)]
                                 : found[static_cast<std::size_t>(from - end)]);
    }
    return;
  }
}

}  // namespace tessera

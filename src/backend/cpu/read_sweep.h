// Nothing but reading: what products that stream their weights are compared with.
#pragma once

#include <atomic>
#include <cstdint>

#include "backend/cpu/thread_pool.h"

namespace tessera {

// The sum of so many words, a multiple of 8, each thread its own stretch. The caller uses it, so that no
// compiler leaves the reading out.
inline std::uint64_t sum_words(ThreadPool& pool, const std::uint64_t* words, std::int64_t count) {
  std::atomic<std::uint64_t> all = 0;
  pool.split(pool.size(), [&](ItemRange range, int) {
    std::uint64_t sums[8] = {};
    const ItemRange part = static_share(count / 8, pool.size(), range.first);
    for (std::int64_t i = part.first; i < part.last; ++i) {
      for (int j = 0; j < 8; ++j) sums[j] += words[i * 8 + j];
    }
    std::uint64_t sum = 0;
    for (const std::uint64_t one : sums) sum += one;
    all.fetch_add(sum, std::memory_order_relaxed);
  });
  return all;
}

}  // namespace tessera

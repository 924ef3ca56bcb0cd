#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tessera {
namespace {

TEST(ThreadPool, RunsEveryItemOnceForAnyCounts) {
  for (const int threads : {1, 2, 3, 9}) {
    ThreadPool pool(threads);
    for (const std::int64_t items : {0, 1, 2, 8, 9, 10, 1000}) {
      std::vector<int> ran(static_cast<std::size_t>(items), 0);
      pool.split(items, [&](ItemRange range, int thread) {
        ASSERT_LT(thread, pool.size());
        for (std::int64_t i = range.first; i < range.last; ++i) ++ran[static_cast<std::size_t>(i)];
      });
      EXPECT_EQ(ran, std::vector<int>(static_cast<std::size_t>(items), 1))
          << threads << " threads, " << items;
    }
  }
}

TEST(ThreadPool, ACallSeesWhatTheCallBeforeItWrote) {
  // More threads than cores, thousands of calls: a lost wake-up would hang, an early return would miss a
  // write.
  ThreadPool pool(5);
  std::vector<std::int64_t> values(5, 0);
  for (int round = 0; round < 5000; ++round) {
    const std::int64_t sum = std::accumulate(values.begin(), values.end(), std::int64_t{0});
    ASSERT_EQ(sum, std::int64_t{5} * round);
    pool.split(5, [&](ItemRange range, int) {
      for (std::int64_t i = range.first; i < range.last; ++i) ++values[static_cast<std::size_t>(i)];
    });
  }
}

TEST(ThreadPool, SharesAreInOrderAndDifferByAtMostOne) {
  for (const std::int64_t items : {1, 7, 64, 1001}) {
    for (const std::int64_t parts : {1, 2, 7, 64}) {
      std::int64_t next = 0;
      for (std::int64_t part = 0; part < parts; ++part) {
        const ItemRange range = static_share(items, parts, part);
        EXPECT_EQ(range.first, next);
        EXPECT_LE(range.last - range.first, (items + parts - 1) / parts);
        EXPECT_GE(range.last - range.first, items / parts);
        next = range.last;
      }
      EXPECT_EQ(next, items);
    }
  }
}

}  // namespace
}  // namespace tessera

#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace tessera {
namespace {

std::vector<BlockId> take(BlockPool& pool, std::size_t count) {
  std::vector<BlockId> blocks(count);
  EXPECT_TRUE(pool.take(blocks));
  return blocks;
}

TEST(BlockPool, RefusedTakeChangesNothing) {
  BlockPool pool(4);
  const auto held = take(pool, 2);
  std::vector<BlockId> more(3, BlockId{77});
  EXPECT_FALSE(pool.take(more));
  EXPECT_EQ(pool.free_blocks(), 2);
  EXPECT_EQ(more, std::vector<BlockId>(3, BlockId{77}));
  pool.check_invariants();
}

TEST(BlockPool, TakesTheLastBlockAndNoneBeyond) {
  BlockPool pool(1);
  EXPECT_TRUE(pool.take({}));
  const auto held = take(pool, 1);
  EXPECT_EQ(held[0], BlockId{0});
  std::vector<BlockId> one(1);
  EXPECT_FALSE(pool.take(one));
  EXPECT_TRUE(pool.take({}));
}

TEST(BlockPool, HandsOutTheLongestFreedFirst) {
  BlockPool pool(3);
  const auto held = take(pool, 3);
  for (const int i : {2, 0, 1}) pool.give_back(held[static_cast<std::size_t>(i)], BlockPool::Keep::kLongest);
  const auto again = take(pool, 3);
  EXPECT_EQ(again, (std::vector<BlockId>{held[2], held[0], held[1]}));
}

TEST(BlockPool, HandsOutWorthlessBlocksBeforeAllOthers) {
  BlockPool pool(3);
  const auto held = take(pool, 3);
  pool.give_back(held[0], BlockPool::Keep::kLongest);
  pool.give_back(held[1], BlockPool::Keep::kNotAtAll);
  EXPECT_EQ(take(pool, 1)[0], held[1]);
}

TEST(BlockPool, SharingRevivesAFreeBlock) {
  BlockPool pool(2);
  const auto held = take(pool, 2);
  pool.give_back(held[1], BlockPool::Keep::kLongest);
  pool.share(held[1]);
  EXPECT_EQ(pool.free_blocks(), 0);
  pool.share(held[1]);
  pool.give_back(held[1], BlockPool::Keep::kLongest);
  EXPECT_EQ(pool.free_blocks(), 0);
  pool.give_back(held[1], BlockPool::Keep::kLongest);
  EXPECT_EQ(pool.free_blocks(), 1);
  pool.check_invariants();
}

TEST(BlockPoolDeathTest, GivingBackAFreeBlockIsOurMistake) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.give_back({0}, BlockPool::Keep::kLongest), "references > 0");
}

TEST(BlockPool, NoBlockIsEverHeldTwiceOrLost) {
  constexpr std::uint32_t kSeed = 20240611;
  std::mt19937 random(kSeed);
  BlockPool pool(37);
  std::map<std::int32_t, int> holders;
  for (int step = 0; step < 20000; ++step) {
    const auto choice = random() % 3;
    if (choice == 0) {
      std::vector<BlockId> blocks(random() % 6);
      const bool fits = blocks.size() <= 37 - holders.size();
      ASSERT_EQ(pool.take(blocks), fits) << "seed " << kSeed << " step " << step;
      if (!fits) continue;
      for (const BlockId b : blocks) ASSERT_TRUE(holders.emplace(b.value, 1).second) << b.value;
    } else if (choice == 1) {
      const auto block = static_cast<std::int32_t>(random() % 37);
      pool.share({block});
      ++holders[block];
    } else if (!holders.empty()) {
      auto at = std::next(holders.begin(), static_cast<std::ptrdiff_t>(random() % holders.size()));
      pool.give_back({at->first}, random() % 2 ? BlockPool::Keep::kLongest : BlockPool::Keep::kNotAtAll);
      if (--at->second == 0) holders.erase(at);
    }
    ASSERT_EQ(pool.used_blocks(), static_cast<std::int32_t>(holders.size()));
    if (step % 97 == 0) pool.check_invariants();
  }
}

}  // namespace
}  // namespace tessera

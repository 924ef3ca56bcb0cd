#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "base/test_seed.h"

namespace tessera {
namespace {

constexpr auto kReplicated = Spread::kReplicated;
constexpr auto kSharded = Spread::kSharded;
constexpr auto kLongest = BlockPool::Keep::kLongest;

std::vector<BlockId> take(BlockPool& pool, int count) {
  std::vector<BlockId> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(pool.take(0, kReplicated));
  return blocks;
}

TEST(BlockPool, HandsOutTheLongestFreedFirst) {
  BlockPool pool(1, 3);
  const auto held = take(pool, 3);
  EXPECT_EQ(pool.free_blocks(), 0);
  for (const int i : {2, 0, 1}) pool.give_back(held[static_cast<std::size_t>(i)], kReplicated, kLongest);
  const auto again = take(pool, 3);
  EXPECT_EQ(again, (std::vector<BlockId>{held[2], held[0], held[1]}));
}

TEST(BlockPool, HandsOutWorthlessBlocksBeforeAllOthers) {
  BlockPool pool(1, 3);
  const auto held = take(pool, 3);
  pool.give_back(held[0], kReplicated, kLongest);
  pool.give_back(held[1], kReplicated, BlockPool::Keep::kNotAtAll);
  EXPECT_EQ(take(pool, 1)[0], held[1]);
  EXPECT_EQ(pool.overwritten().size(), 1U);
}

TEST(BlockPool, SharingRevivesAFreeBlock) {
  BlockPool pool(2, 2);
  const auto held = take(pool, 2);
  pool.give_back(held[1], kReplicated, kLongest);
  pool.share(held[1], kReplicated);
  EXPECT_EQ(pool.free_on(0), 0);
  pool.share(held[1], kReplicated);
  pool.give_back(held[1], kReplicated, kLongest);
  EXPECT_EQ(pool.free_on(1), 0);
  pool.give_back(held[1], kReplicated, kLongest);
  EXPECT_EQ(pool.free_on(1), 1);
  EXPECT_EQ(pool.free_blocks(), 3);
  pool.check_invariants();
}

TEST(BlockPoolDeathTest, GivingBackAFreeBlockIsOurMistake) {
  BlockPool pool(1, 2);
  EXPECT_DEATH(pool.give_back({0}, kReplicated, kLongest), "references > 0");
}

TEST(BlockPool, AShardedBlockTakesMemoryOfItsOwnerAlone) {
  BlockPool pool(3, 2);
  const BlockId block = pool.take(1, kSharded);
  EXPECT_EQ(pool.owner(block), 1);
  EXPECT_EQ(pool.place(block, 0), -1);
  EXPECT_EQ(pool.place(block, 1), 0);
  EXPECT_FALSE(pool.is_everywhere(block));
  EXPECT_EQ(pool.free_on(0), 2);
  EXPECT_EQ(pool.free_on(1), 1);
}

TEST(BlockPool, ShardingFreesTheCopiesAndKeepsTheOwners) {
  BlockPool pool(2, 1);
  const BlockId block = pool.take(1, kReplicated);
  EXPECT_TRUE(pool.is_everywhere(block));
  EXPECT_EQ(pool.free_on(0) + pool.free_on(1), 0);
  pool.shard(block);
  EXPECT_EQ(pool.free_on(0), 1);
  EXPECT_EQ(pool.free_on(1), 0);
  EXPECT_TRUE(pool.is_everywhere(block)) << "nobody has needed the copy's memory yet";
  const BlockId other = pool.take(0, kSharded);
  EXPECT_NE(other, block);
  EXPECT_EQ(pool.place(block, 0), -1);
  EXPECT_EQ(pool.place(block, 1), 0);
  EXPECT_TRUE(pool.overwritten().empty()) << "the block lives on";
  pool.check_invariants();
}

TEST(BlockPool, ABlockStaysReplicatedForTheOthersThatHoldItSo) {
  BlockPool pool(2, 1);
  const BlockId block = pool.take(0, kReplicated);
  pool.share(block, kReplicated);
  pool.shard(block);
  EXPECT_EQ(pool.free_on(1), 0);
  pool.give_back(block, kReplicated, kLongest);
  EXPECT_EQ(pool.free_on(1), 1) << "only a sharded holder is left";
  EXPECT_EQ(pool.free_on(0), 0);
}

TEST(BlockPool, AFreeBlockIsLostWithItsLastCopyOnly) {
  BlockPool pool(2, 1);
  const BlockId block = pool.take(0, kReplicated);
  pool.give_back(block, kReplicated, kLongest);
  const BlockId first = pool.take(0, kSharded);
  EXPECT_TRUE(pool.overwritten().empty());
  EXPECT_EQ(pool.owner(block), 1) << "the copy that is left stands for the content";
  pool.share(block, kSharded);
  EXPECT_EQ(pool.free_on(1), 0);
  pool.give_back(block, kSharded, kLongest);
  pool.take(1, kSharded);
  ASSERT_EQ(pool.overwritten().size(), 1U);
  EXPECT_EQ(pool.overwritten()[0], block);
  EXPECT_EQ(pool.owner(first), 0);
  pool.check_invariants();
}

// Random holders against a plain model of who holds what how.
TEST(BlockPool, NoMemoryIsEverHeldTwiceOrLost) {
  std::mt19937 random(test_seed());
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (const int ranks : {1, 2, 3, 8}) {
    BlockPool pool(ranks, 11);
    std::multimap<std::int32_t, Spread> holders;
    for (int step = 0; step < 20000; ++step) {
      const Spread spread = pick(0, 1) == 0 ? kReplicated : kSharded;
      const int owner = pick(0, ranks - 1);
      const int choice = pick(0, 3);
      if (choice == 0) {
        bool room = pool.free_on(owner) > 0;
        for (int r = 0; r < ranks && spread == kReplicated; ++r) room = room && pool.free_on(r) > 0;
        if (!room) continue;
        const BlockId taken = pool.take(owner, spread);
        ASSERT_EQ(holders.count(taken.value), 0U) << "step " << step;
        holders.emplace(taken.value, spread);
      } else if (choice == 1) {
        const BlockId block{pick(0, pool.size() - 1)};
        const bool known = pool.place(block, pool.owner(block)) >= 0;
        if (!known || (spread == kReplicated && !pool.is_everywhere(block))) continue;
        pool.share(block, spread);
        holders.emplace(block.value, spread);
      } else if (!holders.empty()) {
        auto at = std::next(holders.begin(), pick(0, static_cast<int>(holders.size()) - 1));
        if (choice == 2 && at->second == kReplicated) {
          pool.shard({at->first});
          at->second = kSharded;
        } else {
          pool.give_back({at->first}, at->second, pick(0, 1) == 0 ? kLongest : BlockPool::Keep::kNotAtAll);
          holders.erase(at);
        }
      }
      std::int32_t distinct = 0;
      for (auto at = holders.begin(); at != holders.end(); at = holders.upper_bound(at->first)) ++distinct;
      ASSERT_EQ(pool.used_blocks(), distinct) << "step " << step;
      if (step % 97 == 0) pool.check_invariants();
    }
  }
}

}  // namespace
}  // namespace tessera

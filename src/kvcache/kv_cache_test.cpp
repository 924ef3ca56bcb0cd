#include "kvcache/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace tessera {
namespace {

constexpr HashKey kKey{.low = 1, .high = 2};

std::vector<BlockHash> chain_of(std::initializer_list<int> contents) {
  std::vector<BlockHash> chain;
  BlockHash parent = root_hash(kKey, "");
  for (const int content : contents) {
    const std::vector<std::int32_t> tokens{content};
    parent = block_hash(kKey, parent, tokens);
    chain.push_back(parent);
  }
  return chain;
}

SequenceBlocks empty(const KvCache& cache, Spread spread = Spread::kReplicated) {
  SequenceBlocks blocks;
  cache.reserve(blocks, 16);
  blocks.spread = spread;
  return blocks;
}

SequenceBlocks fill(KvCache& cache, std::span<const BlockHash> chain, Spread spread = Spread::kReplicated) {
  SequenceBlocks blocks = empty(cache, spread);
  EXPECT_TRUE(cache.grow(blocks, static_cast<std::int32_t>(chain.size())));
  for (std::size_t i = 0; i < chain.size(); ++i) cache.remember(chain[i], blocks.ids[i]);
  return blocks;
}

TEST(KvCache, FindsTheLongestCommonPrefixWhileAndAfterItIsHeld) {
  KvCache cache(1, 8, 1, kKey);
  SequenceBlocks blocks = fill(cache, chain_of({1, 2, 3}));
  const std::vector<BlockId> ids = blocks.ids;
  EXPECT_EQ(cache.find(chain_of({1, 2, 9})).blocks, 2);
  EXPECT_EQ(cache.find(chain_of({1, 2, 9})).in_use, 2);
  EXPECT_EQ(cache.find(chain_of({9, 2, 3})).blocks, 0);
  cache.give_back(blocks);
  EXPECT_EQ(blocks.size(), 0);
  EXPECT_EQ(cache.used_blocks(), 0);
  EXPECT_EQ(cache.find(chain_of({1, 2, 3, 4})).blocks, 3);
  EXPECT_EQ(cache.find(chain_of({1, 2, 3, 4})).in_use, 0);
  SequenceBlocks shared = empty(cache);
  cache.share(chain_of({1, 2}), shared);
  EXPECT_EQ(shared.ids, (std::vector<BlockId>{ids[0], ids[1]}));
  EXPECT_EQ(cache.used_blocks(), 2);
  cache.check_invariants();
}

TEST(KvCache, EvictsOldConversationsFirstAndEachFromItsEnd) {
  KvCache cache(1, 6, 1, kKey);
  const auto old_chain = chain_of({1, 2, 3});
  const auto new_chain = chain_of({7, 8});
  SequenceBlocks old_blocks = fill(cache, old_chain);
  SequenceBlocks new_blocks = fill(cache, new_chain);
  cache.give_back(old_blocks);
  cache.give_back(new_blocks);
  SequenceBlocks taken = empty(cache);
  ASSERT_TRUE(cache.grow(taken, 2));  // one was never used, one is the end of the old conversation
  EXPECT_EQ(cache.find(old_chain).blocks, 2);
  EXPECT_EQ(cache.find(new_chain).blocks, 2);
  EXPECT_EQ(cache.evictions(), 1);
  ASSERT_TRUE(cache.grow(taken, 2));
  EXPECT_EQ(cache.find(old_chain).blocks, 0);
  EXPECT_EQ(cache.find(new_chain).blocks, 2);
}

TEST(KvCache, RefusedGrowthChangesNothing) {
  KvCache cache(2, 2, 1, kKey);
  SequenceBlocks replicated = empty(cache);
  EXPECT_FALSE(cache.grow(replicated, 3));
  EXPECT_EQ(replicated.size(), 0);
  SequenceBlocks sharded = empty(cache, Spread::kSharded);
  EXPECT_FALSE(cache.grow(sharded, 5));
  EXPECT_EQ(cache.used_blocks(), 0);
  EXPECT_TRUE(cache.grow(sharded, 4));
  EXPECT_FALSE(cache.grow(sharded, 1));
  EXPECT_EQ(cache.usage(), 1.0);
  cache.check_invariants();
}

TEST(KvCache, KeepsTheFirstOfTwoCopiesAndReusesTheOtherAtOnce) {
  KvCache cache(1, 4, 1, kKey);
  const auto chain = chain_of({1});
  const SequenceBlocks first = fill(cache, chain);
  SequenceBlocks second = empty(cache);
  ASSERT_TRUE(cache.grow(second, 1));
  const BlockId id = second.ids[0];
  EXPECT_FALSE(cache.remember(chain[0], id));
  cache.give_back(second);
  SequenceBlocks next = empty(cache);
  ASSERT_TRUE(cache.grow(next, 1));
  EXPECT_EQ(next.ids[0], id);
  EXPECT_EQ(cache.find(chain).blocks, 1);
}

TEST(KvCache, CountsWhatOnlyOneSequenceHolds) {
  KvCache cache(1, 8, 1, kKey);
  const auto chain = chain_of({1, 2, 3, 4});
  SequenceBlocks blocks = fill(cache, chain);
  EXPECT_EQ(cache.exclusive(blocks), 4);
  SequenceBlocks other = empty(cache);
  cache.share(std::span(chain).first(3), other);
  EXPECT_EQ(cache.exclusive(blocks), 1);
  EXPECT_EQ(cache.exclusive(other), 0);
  cache.give_back(blocks);
  EXPECT_EQ(cache.exclusive(other), 3);
  EXPECT_EQ(cache.exclusive(empty(cache)), 0);
}

// --- several ranks

TEST(KvCache, SpreadsASequenceEvenlyWhateverItsPrefix) {
  KvCache cache(4, 16, 1, kKey);
  SequenceBlocks a = fill(cache, chain_of({1, 2, 3}), Spread::kSharded);
  EXPECT_EQ(std::ranges::count(a.owned, 1), 3);
  SequenceBlocks b = empty(cache, Spread::kSharded);
  cache.share(chain_of({1, 2, 3}), b);
  ASSERT_TRUE(cache.grow(b, 9));
  EXPECT_EQ(b.owned, (std::vector<std::int32_t>{3, 3, 3, 3}));
}

TEST(KvCache, PrefixHitsOfOneBlockWorkAtEveryNumberOfRanks) {
  for (const std::int32_t ranks : {1, 2, 8}) {
    KvCache cache(ranks, 4, 64, kKey);
    SequenceBlocks first = fill(cache, chain_of({1}), Spread::kSharded);
    cache.give_back(first);
    EXPECT_EQ(cache.find(chain_of({1, 2})).blocks, 1) << ranks;
    EXPECT_EQ(cache.find(chain_of({1, 2})).everywhere, ranks == 1 ? 1 : 0) << ranks;
  }
}

TEST(KvCache, ShardingGivesCopiesToOthersWithoutLosingThePrefix) {
  KvCache cache(2, 2, 1, kKey);
  const auto chain = chain_of({1, 2});
  SequenceBlocks first = fill(cache, chain);
  SequenceBlocks second = empty(cache, Spread::kSharded);
  EXPECT_FALSE(cache.grow(second, 1));
  cache.shard(first);
  EXPECT_EQ(first.owned, (std::vector<std::int32_t>{1, 1}));
  EXPECT_TRUE(cache.grow(second, 2));
  EXPECT_EQ(cache.find(chain).blocks, 2);
  EXPECT_EQ(cache.find(chain).everywhere, 0);
  EXPECT_EQ(cache.usage(), 1.0);
  cache.check_invariants();
}

// A block that lacked rows when its sequence was sharded gets them on its owner alone: the other copies never
// stand for it, whichever memory is overwritten first.
TEST(KvCache, CopiesOfABlockThatWasShardedUnfinishedAreNeverFound) {
  KvCache cache(2, 3, 4, kKey);
  const auto chain = chain_of({1});
  SequenceBlocks first = empty(cache);
  ASSERT_TRUE(cache.grow(first, 1));
  const BlockId block = first.ids.front();
  cache.shard(first);
  ASSERT_TRUE(cache.remember(chain.front(), block));
  EXPECT_EQ(cache.find(chain).everywhere, 0);
  cache.give_back(first);
  const std::int32_t owner = cache.owner(block);
  SequenceBlocks others = empty(cache, Spread::kSharded);
  while (cache.find(chain).blocks > 0) {
    ASSERT_TRUE(cache.grow(others, 1));
    ASSERT_TRUE(cache.find(chain).blocks == 0 || cache.owner(block) == owner);
  }
  cache.check_invariants();
}

// The hash table alone, against std::map, with hashes that collide in their home entry on purpose.
TEST(PrefixCache, FindsExactlyWhatAMapFindsUnderCollisions) {
  constexpr std::uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  constexpr std::int32_t kBlocks = 50;
  PrefixCache cache(kBlocks);
  std::map<BlockHash, BlockId> model;
  for (int step = 0; step < 50000; ++step) {
    const BlockHash hash{.low = random() % 4 * 31 + random() % 3, .high = random() % 9};
    const BlockId block{static_cast<std::int32_t>(random() % kBlocks)};
    if (cache.is_remembered(block)) {
      cache.forget(block);
      std::erase_if(model, [&](const auto& entry) { return entry.second == block; });
    } else {
      ASSERT_EQ(cache.remember(hash, block), model.emplace(hash, block).second) << "seed " << kSeed;
    }
    const BlockHash wanted{.low = random() % 4 * 31 + random() % 3, .high = random() % 9};
    const auto found = cache.find(wanted);
    const auto expected = model.find(wanted);
    ASSERT_EQ(found.has_value(), expected != model.end()) << "seed " << kSeed << " step " << step;
    if (found) {
      ASSERT_EQ(*found, expected->second);
    }
    ASSERT_EQ(cache.size(), static_cast<std::int32_t>(model.size()));
    if (step % 101 == 0) cache.check_invariants();
  }
}

}  // namespace
}  // namespace tessera

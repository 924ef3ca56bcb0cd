#include "kvcache/kv_cache.h"

#include <gtest/gtest.h>

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

std::vector<BlockId> fill(KvCache& cache, std::span<const BlockHash> chain) {
  std::vector<BlockId> blocks(chain.size());
  EXPECT_TRUE(cache.take(blocks));
  for (std::size_t i = 0; i < chain.size(); ++i) cache.remember(chain[i], blocks[i]);
  return blocks;
}

TEST(KvCache, FindsTheLongestCommonPrefixWhileAndAfterItIsHeld) {
  KvCache cache(8, 1, kKey);
  const auto blocks = fill(cache, chain_of({1, 2, 3}));
  EXPECT_EQ(cache.find(chain_of({1, 2, 9})).blocks, 2);
  EXPECT_EQ(cache.find(chain_of({1, 2, 9})).in_use, 2);
  EXPECT_EQ(cache.find(chain_of({9, 2, 3})).blocks, 0);
  cache.give_back(blocks);
  EXPECT_EQ(cache.used_blocks(), 0);
  EXPECT_EQ(cache.find(chain_of({1, 2, 3, 4})).blocks, 3);
  EXPECT_EQ(cache.find(chain_of({1, 2, 3, 4})).in_use, 0);
  std::vector<BlockId> shared;
  const auto chain = chain_of({1, 2});
  cache.share(chain, shared);
  EXPECT_EQ(shared, (std::vector<BlockId>{blocks[0], blocks[1]}));
  EXPECT_EQ(cache.used_blocks(), 2);
  cache.check_invariants();
}

TEST(KvCache, EvictsOldConversationsFirstAndEachFromItsEnd) {
  KvCache cache(6, 1, kKey);
  const auto old_chain = chain_of({1, 2, 3});
  const auto new_chain = chain_of({7, 8});
  const auto old_blocks = fill(cache, old_chain);
  const auto new_blocks = fill(cache, new_chain);
  cache.give_back(old_blocks);
  cache.give_back(new_blocks);
  std::vector<BlockId> taken(2);  // one was never used, one is the end of the old conversation
  ASSERT_TRUE(cache.take(taken));
  EXPECT_EQ(cache.find(old_chain).blocks, 2);
  EXPECT_EQ(cache.find(new_chain).blocks, 2);
  EXPECT_EQ(cache.evictions(), 1);
  std::vector<BlockId> rest(2);
  ASSERT_TRUE(cache.take(rest));
  EXPECT_EQ(cache.find(old_chain).blocks, 0);
  EXPECT_EQ(cache.find(new_chain).blocks, 2);
}

TEST(KvCache, KeepsTheFirstOfTwoCopiesAndReusesTheOtherAtOnce) {
  KvCache cache(4, 1, kKey);
  const auto chain = chain_of({1});
  const auto first = fill(cache, chain);
  std::vector<BlockId> second(1);
  ASSERT_TRUE(cache.take(second));
  EXPECT_FALSE(cache.remember(chain[0], second[0]));
  cache.give_back(second);
  std::vector<BlockId> next(1);
  ASSERT_TRUE(cache.take(next));
  EXPECT_EQ(next, second);
  EXPECT_EQ(cache.find(chain).blocks, 1);
}

TEST(KvCache, CountsWhatOnlyOneSequenceHolds) {
  KvCache cache(8, 1, kKey);
  const auto chain = chain_of({1, 2, 3, 4});
  const auto blocks = fill(cache, chain);
  EXPECT_EQ(cache.exclusive(blocks), 4);
  std::vector<BlockId> other;
  cache.share(std::span(chain).first(3), other);
  EXPECT_EQ(cache.exclusive(blocks), 1);
  EXPECT_EQ(cache.exclusive(other), 0);
  cache.give_back(blocks);
  EXPECT_EQ(cache.exclusive(other), 3);
  EXPECT_EQ(cache.exclusive({}), 0);
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

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/test_seed.h"
#include "speculative/ngram_index.h"
#include "speculative/ngram_proposer.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::int32_t> lookup(const NgramIndex& index, std::int32_t count) {
  std::vector<std::int32_t> found = {99};  // what was there before goes
  index.lookup(count, found);
  return found;
}

// The definition: the longest suffix that occurred before, its last earlier occurrence, continued in place.
std::vector<std::int32_t> by_scanning(const std::vector<std::int32_t>& tokens, std::int32_t shortest,
                                      std::int32_t longest, std::int32_t count) {
  const auto end = static_cast<std::int32_t>(tokens.size());
  for (std::int32_t n = longest; n >= shortest; --n) {
    for (std::int32_t follows = end - 1; follows >= n; --follows) {
      if (!std::equal(tokens.begin() + follows - n, tokens.begin() + follows, tokens.end() - n)) continue;
      std::vector<std::int32_t> all = tokens;
      for (std::int32_t k = 0; k < count; ++k) all.push_back(all[static_cast<std::size_t>(follows + k)]);
      return {all.end() - count, all.end()};
    }
  }
  return {};
}

TEST(NgramIndex, ContinuesTheLongestRepeatedRun) {
  NgramIndex index(1, 3);
  index.append(std::vector<std::int32_t>{1, 2, 3, 7, 8, 2, 3, 9, 1, 2, 3});
  EXPECT_THAT(lookup(index, 3), ElementsAre(7, 8, 2)) << "1 2 3 is longer than 2 3, though 2 3 came later";
}

TEST(NgramIndex, OfEqualRunsTheLatestCounts) {
  NgramIndex index(1, 2);
  index.append(std::vector<std::int32_t>{5, 1, 6, 5, 2, 7, 5});
  EXPECT_THAT(lookup(index, 2), ElementsAre(2, 7));
}

TEST(NgramIndex, GoesOnWithThePeriodPastTheEnd) {
  NgramIndex index(1, 3);
  index.append(std::vector<std::int32_t>{4, 1, 2, 1, 2});
  EXPECT_THAT(lookup(index, 5), ElementsAre(1, 2, 1, 2, 1));
  NgramIndex same(2, 2);
  same.append(std::vector<std::int32_t>{3, 3, 3});
  EXPECT_THAT(lookup(same, 4), ElementsAre(3, 3, 3, 3));
}

TEST(NgramIndex, SaysNothingAboutWhatIsNew) {
  NgramIndex index(2, 3);
  EXPECT_THAT(lookup(index, 3), IsEmpty());
  index.append(std::vector<std::int32_t>{1, 2, 3, 4, 1});
  EXPECT_THAT(lookup(index, 3), IsEmpty()) << "one token is shorter than the shortest run";
  index.clear();
  index.append(std::vector<std::int32_t>{2, 3});
  EXPECT_THAT(lookup(index, 3), IsEmpty()) << "the text before clear() is forgotten";
}

TEST(NgramIndex, AgreesWithScanningOnRandomText) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 200; ++round) {
    const auto shortest = static_cast<std::int32_t>(1 + random() % 3);
    const auto longest = shortest + static_cast<std::int32_t>(random() % 3);
    NgramIndex index(shortest, longest);
    std::vector<std::int32_t> tokens;
    const auto alphabet = 2 + random() % 6;
    for (int i = 0; i < 300; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random() % alphabet));
      index.append(tokens.back());
      if (i % 7 == 0) {
        ASSERT_EQ(lookup(index, 4), by_scanning(tokens, shortest, longest, 4))
            << "round " << round << " length " << tokens.size();
      }
    }
  }
}

// A step's work does not grow with the context: a hundred times the tokens take about a hundred times as
// long.
TEST(NgramIndex, TakesTimeLinearInTheTokens) {
  const auto seconds_for = [](int tokens) {
    NgramIndex index(1, 3);
    std::vector<std::int32_t> found;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < tokens; ++i) {
      index.append(i % 2 == 0 ? 7 : i % 1001);  // runs of one token occur everywhere
      index.lookup(4, found);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double best_short = 1e9, best_long = 1e9;
  for (int i = 0; i < 3; ++i) {
    best_short = std::min(best_short, seconds_for(4'000));
    best_long = std::min(best_long, seconds_for(400'000));
  }
  EXPECT_LT(best_long, 100 * best_short * 10) << "a scan would take 10,000 times as long";
}

TEST(NgramProposer, FollowsChunksDecodesAndNewSequences) {
  NgramProposer proposer({.max_seqs = 2, .most_drafts = 3, .shortest = 1, .longest = 3});
  std::vector<Proposal> proposals(1);
  const auto propose = [&](std::int32_t slot, std::int32_t first, std::vector<std::int32_t> tokens,
                           std::int32_t drafts) {
    const ProposerWork work{.slot = slot, .first_position = first, .tokens = tokens, .drafts = drafts};
    proposer.propose({&work, 1}, Tensor{}, proposals);
    return proposals[0].tokens;
  };
  const std::vector<std::int32_t> prompt = {1, 2, 3, 4, 1, 2};
  proposer.start(0, prompt, 0);
  proposer.start(1, std::vector<std::int32_t>{9, 9}, 0);
  EXPECT_THAT(propose(0, 0, {1, 2, 3, 4}, 0), IsEmpty()) << "a chunk, and the prompt's next token";
  EXPECT_THAT(propose(0, 3, {4, 1, 2, 3}, 2), ElementsAre(4, 1)) << "1 2 3 again";
  EXPECT_THAT(propose(0, 6, {3, 4, 1, 5}, 9), IsEmpty()) << "drafts 4 1 stood, 5 is new";
  EXPECT_THAT(propose(0, 9, {5, 4}, 9), ElementsAre(1, 5, 4)) << "at most most_drafts; the latest 4";
  EXPECT_THAT(propose(1, 1, {9, 9}, 2), ElementsAre(9, 9));
  proposer.retire(0);
  proposer.start(0, std::vector<std::int32_t>{4}, 0);
  EXPECT_THAT(propose(0, 0, {4, 4}, 1), ElementsAre(4));
}

}  // namespace
}  // namespace tessera

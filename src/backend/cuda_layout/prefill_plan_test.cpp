#include "backend/cuda_layout/prefill_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::cuda {
namespace {

constexpr std::int32_t kChunk = 512;

struct Sequence {
  std::int32_t earlier, tokens;
};
struct Planned {
  std::vector<std::int32_t> query_start = {0};
  std::vector<std::int32_t> visible;
  PrefillPlan plan;
};
Planned plan_of(const std::vector<Sequence>& sequences) {
  Planned p;
  for (const Sequence& s : sequences) {
    for (std::int32_t t = 0; t < s.tokens; ++t) p.visible.push_back(s.earlier + t + 1);
    p.query_start.push_back(p.query_start.back() + s.tokens);
  }
  p.plan = plan_prefill(p.query_start.data(), p.visible.data(), static_cast<std::int32_t>(sequences.size()),
                        kChunk);
  return p;
}

TEST(PrefillPlan, CutsASequenceAtMultiplesOfTheChunk) {
  const PrefillPlan plan = plan_of({{1000, 30}}).plan;
  ASSERT_EQ(plan.pieces.size(), 3U);
  EXPECT_EQ(plan.rounds.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.pieces[i].first_row, static_cast<std::int32_t>(i) * kChunk);
    EXPECT_EQ(plan.pieces[i].rows, i < 2 ? kChunk : 1030 - 2 * kChunk);
    EXPECT_EQ(plan.pieces[i].chunk_row, 0);
  }
}

TEST(PrefillPlan, PutsNoTwoSequencesIntoOneTileOfRows) {
  const PrefillPlan plan = plan_of({{0, 1}, {0, 129}, {0, 128}, {0, 60}}).plan;
  ASSERT_EQ(plan.pieces.size(), 4U);
  ASSERT_EQ(plan.rounds.size(), 2U) << "128 + 256 + 128 rows, then 128";
  EXPECT_EQ(plan.pieces[1].chunk_row, 128);
  EXPECT_EQ(plan.pieces[2].chunk_row, 384);
  EXPECT_EQ(plan.pieces[3].chunk_row, 0);
  for (const PrefillRound& round : plan.rounds) EXPECT_LE(round.rows, kChunk);
}

TEST(PrefillPlan, KeepsTwoPiecesOfASequenceInTwoRounds) {
  const PrefillPlan plan = plan_of({{0, 10}, {600, 10}, {0, 10}}).plan;
  for (const PrefillRound& round : plan.rounds) {
    std::vector<std::int32_t> seqs;
    for (std::int32_t p = 0; p < round.pieces; ++p) {
      seqs.push_back(plan.pieces[static_cast<std::size_t>(round.first_piece + p)].seq);
    }
    std::ranges::sort(seqs);
    EXPECT_EQ(std::ranges::adjacent_find(seqs), seqs.end());
  }
}

// Every pair of a token and a row that it sees lies in exactly one tile, and full_rows are seen by all.
TEST(PrefillPlan, TilesCoverWhatEveryTokenSees) {
  const Planned p = plan_of({{0, 1}, {0, 300}, {700, 129}, {511, 2}, {3, 0}, {0, 128}});
  std::vector<std::int64_t> rows(p.visible.size(), 0);
  for (const PrefillRound& round : p.plan.rounds) {
    for (std::int32_t i = 0; i < round.tiles; ++i) {
      const PrefillTile& tile = p.plan.tiles[static_cast<std::size_t>(round.first_tile + i)];
      ASSERT_GE(tile.tokens, 1);
      ASSERT_LE(tile.tokens, kTileTokens);
      EXPECT_EQ(tile.chunk_row % kPieceAlign, 0);
      EXPECT_LE(tile.full_rows, tile.rows);
      for (std::int32_t t = tile.first_token; t < tile.first_token + tile.tokens; ++t) {
        const std::int32_t rest = p.visible[static_cast<std::size_t>(t)] - tile.first_row;
        rows[static_cast<std::size_t>(t)] += std::clamp(rest, 0, tile.rows);
        EXPECT_GE(std::max(rest, 0), tile.full_rows);
      }
    }
  }
  for (std::size_t t = 0; t < rows.size(); ++t) EXPECT_EQ(rows[t], p.visible[t]) << "token " << t;
}

TEST(PrefillPlan, PutsTheLongestTileOfARoundFirst) {
  const PrefillPlan plan = plan_of({{0, 500}}).plan;
  ASSERT_EQ(plan.tiles.size(), 4U);
  EXPECT_TRUE(std::ranges::is_sorted(plan.tiles, std::ranges::greater{}, &PrefillTile::rows));
  EXPECT_EQ(plan.tiles.back().full_rows, 1);
}

TEST(PrefillPlan, VisitsTokensThatSeeNothingInTheFirstRoundAlone) {
  const std::vector<std::int32_t> query_start = {0, 200, 201};
  std::vector<std::int32_t> visible(201, 0);
  for (std::size_t t = 128; t < 200; ++t) visible[t] = 600;
  const PrefillPlan plan = plan_prefill(query_start.data(), visible.data(), 2, kChunk);
  ASSERT_EQ(plan.rounds.size(), 2U);
  ASSERT_EQ(plan.rounds[0].tiles, 2) << "of sequence 0";
  EXPECT_EQ(plan.tiles[1],
            (PrefillTile{
                .first_token = 0, .tokens = 128, .first_row = 0, .chunk_row = 0, .rows = 0, .full_rows = 0}));
  ASSERT_EQ(plan.rounds[1].tiles, 2) << "the rest of sequence 0, and sequence 1";
  EXPECT_EQ(plan.tiles[2].first_token, 128);
  EXPECT_EQ(plan.tiles[3].first_token, 200) << "a sequence without rows is visited once";
}

TEST(PrefillPlan, OfNothingIsEmpty) {
  EXPECT_TRUE(plan_of({}).plan.rounds.empty());
  EXPECT_TRUE(plan_of({{5, 0}}).plan.tiles.empty());
}

}  // namespace
}  // namespace tessera::cuda

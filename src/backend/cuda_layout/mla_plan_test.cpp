// The division of work, on the host: the device runs the same functions.
#include "backend/cuda_layout/mla_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace tessera::cuda {
namespace {

struct Plan {
  std::vector<MlaPart> parts;  // non-empty ones
  std::vector<MlaSeqPlan> seqs;
};

Plan plan(const MlaPlanRule& rule, const std::vector<std::int32_t>& rows) {
  std::vector<std::int32_t> prefix{0};
  for (const std::int32_t r : rows) prefix.push_back(prefix.back() + mla_cost(rule, mla_tiles(r)));
  std::int32_t dearest_whole = 0;
  std::int32_t dearest_equal = 0;
  for (int p = 0; p < rule.parts; ++p)
    dearest_whole = std::max(dearest_whole, mla_whole_cost(rule, prefix.data(), p));
  for (const std::int32_t r : rows)
    dearest_equal = std::max(dearest_equal, mla_equal_cost(rule, mla_tiles(r)));
  const MlaCutting cutting = mla_choose_cutting(rule, prefix.data(), dearest_whole, dearest_equal);
  Plan result;
  for (int p = 0; p < rule.parts; ++p) {
    const MlaPart part{mla_cut(rule, prefix.data(), cutting, p),
                       mla_cut(rule, prefix.data(), cutting, p + 1)};
    if (mla_before(part.begin, part.end)) result.parts.push_back(part);
  }
  std::int32_t base = 0;
  for (std::size_t seq = 0; seq < rows.size(); ++seq) {
    result.seqs.push_back(mla_seq_plan(rule, result.parts.data(),
                                       static_cast<std::int32_t>(result.parts.size()),
                                       static_cast<std::int32_t>(seq), mla_tiles(rows[seq]), base));
    base += result.seqs.back().pieces;
  }
  return result;
}

// Walks the parts as the kernels do; every tile exactly once, every slot written once and read by the right
// sequence.
void expect_covers(const MlaPlanRule& rule, const std::vector<std::int32_t>& rows) {
  const Plan p = plan(rule, rows);
  std::vector<std::vector<int>> seen;
  for (const std::int32_t r : rows) seen.emplace_back(static_cast<std::size_t>(mla_tiles(r)), 0);
  std::map<std::int32_t, std::pair<std::size_t, std::int32_t>> slots;  // slot -> sequence, first tile
  for (std::size_t index = 0; index < p.parts.size(); ++index) {
    const MlaPart& part = p.parts[index];
    std::int32_t tile = part.begin.tile;
    for (std::int32_t seq = part.begin.seq;
         seq < part.end.seq || (seq == part.end.seq && tile < part.end.tile);) {
      const auto s = static_cast<std::size_t>(seq);
      ASSERT_LT(s, rows.size());
      std::int32_t end = seq == part.end.seq ? part.end.tile : p.seqs[s].tiles;
      if (rule.fixed_tiles > 0) end = std::min(end, (tile / rule.fixed_tiles + 1) * rule.fixed_tiles);
      for (std::int32_t t = tile; t < end; ++t) ++seen[s][static_cast<std::size_t>(t)];
      if (p.seqs[s].pieces > 1) {
        const std::int32_t slot = rule.fixed_tiles > 0 ? p.seqs[s].first_slot + tile / rule.fixed_tiles
                                  : tile == 0          ? p.seqs[s].first_slot
                                                       : kMlaSlotStep * static_cast<std::int32_t>(index);
        EXPECT_TRUE(slots.insert({slot, {s, tile}}).second) << "slot " << slot << " written twice";
      } else {
        EXPECT_EQ(tile, 0);
        EXPECT_EQ(end, p.seqs[s].tiles);
      }
      if (end == p.seqs[s].tiles) {
        ++seq;
        tile = 0;
      } else {
        tile = end;
      }
    }
  }
  for (std::size_t s = 0; s < rows.size(); ++s) {
    for (std::size_t t = 0; t < seen[s].size(); ++t)
      EXPECT_EQ(seen[s][t], 1) << "sequence " << s << " tile " << t;
    if (p.seqs[s].pieces <= 1) continue;
    std::int32_t last = -1;
    for (std::int32_t piece = 0; piece < p.seqs[s].pieces; ++piece) {
      const auto found = slots.find(mla_slot(rule, p.seqs[s], piece));
      ASSERT_NE(found, slots.end()) << "sequence " << s << " piece " << piece << " of " << p.seqs[s].pieces;
      EXPECT_EQ(found->second.first, s);
      EXPECT_GT(found->second.second, last);
      last = found->second.second;
    }
  }
}

MlaPlanRule rule(std::size_t seqs, std::int32_t parts, std::int32_t fixed = 0) {
  return {.seqs = static_cast<std::int32_t>(seqs),
          .parts = parts,
          .overhead = 5,
          .split_cost = 8,
          .fixed_tiles = fixed};
}

TEST(MlaPlan, CoversEveryTileOnce) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::int32_t> rows(1 + random() % 300);
    const int limit = 1 << (random() % 18);
    for (auto& r : rows) r = static_cast<std::int32_t>(random() % static_cast<unsigned>(limit + 1));
    const std::int32_t parts = 1 + static_cast<std::int32_t>(random() % 200);
    SCOPED_TRACE(testing::Message() << "round " << round << ": " << rows.size() << " sequences up to "
                                    << limit << " rows, " << parts << " parts");
    expect_covers(rule(rows.size(), parts), rows);
    expect_covers(rule(rows.size(), parts, 1 + static_cast<std::int32_t>(random() % 40)), rows);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(MlaPlan, OneSequenceFillsAllParts) {
  const Plan p = plan(rule(1, 132), {131072});
  EXPECT_GE(p.parts.size(), 128U);
  std::int32_t longest = 0;
  for (const MlaPart& part : p.parts) {
    const std::int32_t end = part.end.seq == 1 ? 2048 : part.end.tile;
    longest = std::max(longest, end - part.begin.tile);
  }
  EXPECT_LE(longest, 16);  // 2,048 tiles over 132 parts
}

TEST(MlaPlan, EvenBatchesAreNotSplit) {
  for (const std::int32_t rows : {1, 1024, 8192}) {
    const Plan p = plan(rule(128, 132), std::vector<std::int32_t>(128, rows));
    EXPECT_TRUE(std::all_of(p.seqs.begin(), p.seqs.end(), [](const MlaSeqPlan& s) { return s.pieces == 1; }))
        << rows;
  }
}

TEST(MlaPlan, LongEvenBatchesGetOnePieceAPart) {
  const Plan p = plan(rule(32, 132), std::vector<std::int32_t>(32, 8192));
  EXPECT_EQ(p.parts.size(), 128U);
  for (const MlaSeqPlan& s : p.seqs) EXPECT_EQ(s.pieces, 4);
}

TEST(MlaPlan, UnevenBatchesAreBalancedWithinTheOverhead) {
  std::vector<std::int32_t> rows{131072, 1, 1, 64, 100000, 7, 4096, 4096, 30000};
  const Plan p = plan(rule(rows.size(), 132), rows);
  std::int64_t total = 0;
  for (const auto& s : p.seqs) total += s.tiles + 5;
  std::int64_t longest = 0;
  for (const MlaPart& part : p.parts) {
    std::int64_t tiles = 0;
    for (std::int32_t seq = part.begin.seq; seq <= part.end.seq && seq < 9; ++seq) {
      const std::int32_t from = seq == part.begin.seq ? part.begin.tile : 0;
      const std::int32_t to =
          seq == part.end.seq ? part.end.tile : p.seqs[static_cast<std::size_t>(seq)].tiles;
      tiles += to - from;
    }
    longest = std::max(longest, tiles);
  }
  EXPECT_LE(longest, total / 132 + 1 + 2 * 5);
}

// Pieces were shared out by tiles alone: a part of 33 tiles got two pieces of 32, its neighbour none.
TEST(MlaPlan, EqualFixedPiecesAreSharedOutEvenly) {
  struct Case {
    std::size_t seqs;
    std::int32_t rows, most;  // pieces of a part
  };
  for (const Case& c : {Case{32, 8192, 1}, Case{128, 16384, 8}, Case{8, 32768, 1}, Case{128, 2048, 1},
                        Case{1, 131072, 1}, Case{133, 2048, 2}, Case{3, 2049, 1}}) {
    const Plan p = plan(rule(c.seqs, 132, 32), std::vector<std::int32_t>(c.seqs, c.rows));
    const std::int32_t each = (mla_tiles(c.rows) + 31) / 32;  // pieces of a sequence
    const auto place = [&](const MlaCut& cut) { return cut.seq * each + cut.tile / 32; };
    for (const MlaPart& part : p.parts) {
      EXPECT_LE(place(part.end) - place(part.begin), c.most)
          << c.seqs << " sequences of " << c.rows << " rows";
    }
  }
}

TEST(MlaPlan, TilesFollowFromCost) {
  for (const std::int32_t fixed : {0, 1, 7, 32}) {
    const MlaPlanRule r = rule(1, 1, fixed);
    for (std::int32_t tiles = 1; tiles < 200; ++tiles) EXPECT_EQ(mla_tiles_of(r, mla_cost(r, tiles)), tiles);
  }
}

}  // namespace
}  // namespace tessera::cuda

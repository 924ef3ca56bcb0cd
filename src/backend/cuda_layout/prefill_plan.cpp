#include "backend/cuda_layout/prefill_plan.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace tessera::cuda {
namespace {

void add_tiles(const PrefillPiece& piece, const std::int32_t* visible_rows, PrefillPlan& plan) {
  for (std::int32_t first = 0; first < piece.tokens; first += kTileTokens) {
    PrefillTile tile{.first_token = piece.first_token + first,
                     .tokens = std::min(kTileTokens, piece.tokens - first),
                     .first_row = piece.first_row,
                     .chunk_row = piece.chunk_row,
                     .rows = 0,
                     .full_rows = piece.rows};
    for (std::int32_t t = tile.first_token; t < tile.first_token + tile.tokens; ++t) {
      const std::int32_t seen = std::clamp(visible_rows[t] - piece.first_row, 0, piece.rows);
      tile.rows = std::max(tile.rows, seen);
      tile.full_rows = std::min(tile.full_rows, seen);
    }
    if (tile.rows > 0 || piece.first_row == 0) plan.tiles.push_back(tile);
  }
}

}  // namespace

PrefillPlan plan_prefill(const std::int32_t* query_start, const std::int32_t* visible_rows, std::int32_t seqs,
                         std::int32_t chunk_rows) {
  TS_CHECK(chunk_rows > 0 && chunk_rows % kPieceAlign == 0, chunk_rows);
  PrefillPlan plan;
  const auto close = [&] {
    PrefillRound next;
    next.first_piece = static_cast<std::int32_t>(plan.pieces.size());
    plan.rounds.push_back(next);
  };
  close();
  for (std::int32_t s = 0; s < seqs; ++s) {
    const std::int32_t tokens = query_start[s + 1] - query_start[s];
    if (tokens == 0) continue;
    const std::int32_t rows =
        *std::max_element(visible_rows + query_start[s], visible_rows + query_start[s + 1]);
    std::int32_t first = 0;
    do {  // a sequence without rows has one empty piece, which writes zeros
      const std::int32_t count = std::min(chunk_rows, rows - first);
      // Two pieces of one sequence never share a round: the second needs the first one's result.
      const bool continues = first > 0;
      if (continues || plan.rounds.back().rows + count > chunk_rows) close();
      PrefillRound& round = plan.rounds.back();
      plan.pieces.push_back({.seq = s,
                             .first_row = first,
                             .rows = count,
                             .chunk_row = round.rows,
                             .first_token = query_start[s],
                             .tokens = tokens});
      round.rows += (count + kPieceAlign - 1) / kPieceAlign * kPieceAlign;
      round.most_tokens = std::max(round.most_tokens, tokens);
      ++round.pieces;
      first += count;
    } while (first < rows);
  }
  if (plan.rounds.back().pieces == 0) plan.rounds.pop_back();
  for (PrefillRound& round : plan.rounds) {
    round.first_tile = static_cast<std::int32_t>(plan.tiles.size());
    for (std::int32_t p = 0; p < round.pieces; ++p) {
      add_tiles(plan.pieces[static_cast<std::size_t>(round.first_piece + p)], visible_rows, plan);
    }
    round.tiles = static_cast<std::int32_t>(plan.tiles.size()) - round.first_tile;
    std::ranges::stable_sort(plan.tiles.begin() + round.first_tile, plan.tiles.end(), std::ranges::greater{},
                             &PrefillTile::rows);
  }
  return plan;
}

std::size_t prefill_plan_bytes(std::size_t pieces, std::size_t tiles, std::size_t rounds) {
  return pieces * sizeof(PrefillPiece) + tiles * sizeof(PrefillTile) + rounds * sizeof(std::int32_t);
}

}  // namespace tessera::cuda

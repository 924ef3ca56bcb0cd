// What expanded attention does for one step, in which order: plain arithmetic on the lengths of its
// sequences.
//
// The rows of a sequence are expanded to keys and values some thousand at a time. One such range is a
// *piece*; pieces that fit the scratch together make a *round*. Query tokens are attended to in *tiles* of
// one piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::cuda {

// Pieces start at multiples of this in the chunk, and rows between them are zero: a kernel may read so many
// rows at once without meeting those of another sequence.
inline constexpr std::int32_t kPieceAlign = 128;
inline constexpr std::int32_t kTileTokens = 128;

// Rows [first_row, first_row + rows) of one sequence, expanded to rows [chunk_row, ...) of the chunk. A
// sequence is cut at multiples of the chunk's size, so that what a token gets does not depend on the batch.
struct PrefillPiece {
  std::int32_t seq;
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t chunk_row;
  std::int32_t first_token;
  std::int32_t tokens;

  friend bool operator==(const PrefillPiece&, const PrefillPiece&) = default;
};

// Up to kTileTokens query tokens and what they see of one piece. Tokens that see nothing of a later piece
// have no tile there: what the rounds before have found stands.
struct PrefillTile {
  std::int32_t first_token;  // of the step
  std::int32_t tokens;       // at least 1
  std::int32_t first_row;    // of the piece; more than 0: an earlier round has left output and log-sum-exp
  std::int32_t chunk_row;
  std::int32_t rows;       // of the piece, that any of the tokens sees
  std::int32_t full_rows;  // that all of them see

  friend bool operator==(const PrefillTile&, const PrefillTile&) = default;
};

struct PrefillRound {
  std::int32_t first_piece = 0;
  std::int32_t pieces = 0;
  std::int32_t first_tile = 0;  // tiles of a round: the one with most rows first
  std::int32_t tiles = 0;
  std::int32_t rows = 0;         // of the chunk, in use
  std::int32_t most_tokens = 0;  // of a piece
};

struct PrefillPlan {
  std::vector<PrefillPiece> pieces;
  std::vector<PrefillTile> tiles;
  std::vector<PrefillRound> rounds;
};

// query_start [seqs + 1]; visible_rows [tokens]; chunk_rows is a multiple of kPieceAlign.
PrefillPlan plan_prefill(const std::int32_t* query_start, const std::int32_t* visible_rows, std::int32_t seqs,
                         std::int32_t chunk_rows);

// The plan as it lies on the device: pieces, then tiles, then one counter a round, which starts at zero.
std::size_t prefill_plan_bytes(std::size_t pieces, std::size_t tiles, std::size_t rounds);

}  // namespace tessera::cuda

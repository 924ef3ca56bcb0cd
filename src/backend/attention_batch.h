// Which query tokens of which sequences attend in one step, and where their keys lie. Plain data, computed by
// the scheduler.
#pragma once

#include <cstdint>

namespace tessera {

// All pointers lead to memory of the device that computes. Sequence s owns query tokens [query_start[s],
// query_start[s + 1]). A query token sees the first visible_rows[t] rows of its sequence's block table on
// this rank: its position + 1 where the rank holds the whole sequence; under decode context parallelism the
// number of this rank's rows at or before the position (rows lie in position order, so they are a prefix),
// which may be 0.
struct AttentionBatch {
  std::int32_t seqs = 0;
  std::int32_t tokens = 0;
  std::int32_t max_query = 0;                  // most query tokens of one sequence
  std::int32_t max_blocks = 0;                 // width of the block table
  const std::int32_t* query_start = nullptr;   // [seqs + 1]
  const std::int32_t* positions = nullptr;     // [tokens], global
  const std::int32_t* visible_rows = nullptr;  // [tokens]
  const std::int32_t* block_table =
      nullptr;  // [seqs, max_blocks]; entries past the last visible row are never read
  const std::int64_t* slots =
      nullptr;  // [tokens] row of the pool that takes the token's keys; -1: none on this rank
};

}  // namespace tessera

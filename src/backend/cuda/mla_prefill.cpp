#include "backend/cuda/mla_prefill.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::cuda {

PrefillPlan plan_prefill(const std::int32_t* query_start, const std::int32_t* rows, std::int32_t seqs,
                         std::int32_t chunk_rows) {
  constexpr std::int32_t kAlign = 64;  // where a piece starts in the chunk
  TS_CHECK(chunk_rows > 0 && chunk_rows % kAlign == 0, chunk_rows);
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
    std::int32_t first = 0;
    do {  // a sequence without rows has one empty piece, which writes zeros
      const std::int32_t count = std::min(chunk_rows, rows[s] - first);
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
      round.rows = std::min(chunk_rows, (round.rows + count + kAlign - 1) / kAlign * kAlign);
      round.most_tokens = std::max(round.most_tokens, tokens);
      ++round.pieces;
      first += count;
    } while (first < rows[s]);
  }
  if (plan.rounds.back().pieces == 0) plan.rounds.pop_back();
  return plan;
}

}  // namespace tessera::cuda

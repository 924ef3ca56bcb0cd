// How decode attention is divided over the multiprocessors: plain arithmetic, the same on host and device.
//
// Work lies on a line. Sequence i covers `overhead + tiles(i)` units of it: first the cost of starting on a
// sequence (loading Q, writing O), then one unit for each 64-token tile. The line is cut into equal parts,
// and a cut is moved to the nearest place where cutting makes sense: never inside the overhead, never so
// close to the end of a sequence that the rest would not pay for its own start. Moving is a monotone function
// of the cut alone, so neighbouring parts agree without talking to each other, and all parts are computed at
// once.
//
// If giving every part the same number of whole sequences is nearly as even (within split_cost tiles),
// nothing is split, and nothing needs merging.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TESSERA_HD __host__ __device__
#else
#define TESSERA_HD
#endif

namespace tessera::cuda {

struct MlaCut {
  std::int32_t seq;   // = seqs at the end of the line
  std::int32_t tile;  // in 64-token tiles from the start of the sequence
};

// One contiguous range of work: [begin, end) in the order of (seq, tile). Empty when both are equal.
struct MlaPart {
  MlaCut begin;
  MlaCut end;
};

struct MlaSeqPlan {
  std::int32_t tiles;       // at least 1: an empty sequence must be visited too, to write its zeros
  std::int32_t pieces;      // 1: written directly; more: partial results to merge
  std::int32_t first_slot;  // slot of the piece that begins at tile 0
  std::int32_t next_slots;  // slot of piece s >= 1 is next_slots + s * slot_step
};

struct MlaPlanRule {
  std::int32_t seqs;
  std::int32_t parts;
  std::int32_t overhead;     // tiles
  std::int32_t split_cost;   // tiles
  std::int32_t fixed_tiles;  // 0: free choice of cuts
};

TESSERA_HD inline std::int32_t mla_tiles(std::int32_t rows) { return rows > 0 ? (rows + 63) / 64 : 1; }

// What a sequence covers of the line, and the tiles of one that covers `cost`. With fixed splits every piece
// has its overhead: pieces of one length then cover the same, and equal parts of the line hold equally many.
TESSERA_HD inline std::int32_t mla_cost(const MlaPlanRule& rule, std::int32_t tiles) {
  const std::int32_t pieces = rule.fixed_tiles > 0 ? (tiles + rule.fixed_tiles - 1) / rule.fixed_tiles : 1;
  return pieces * rule.overhead + tiles;
}
TESSERA_HD inline std::int32_t mla_tiles_of(const MlaPlanRule& rule, std::int32_t cost) {
  if (rule.fixed_tiles == 0) return cost - rule.overhead;
  const std::int32_t piece = rule.overhead + rule.fixed_tiles;
  return cost / piece * rule.fixed_tiles + (cost % piece > 0 ? cost % piece - rule.overhead : 0);
}

// Slots of part p: 2 p for the piece with which it begins, 2 p + 1 for the one that it breaks off.
inline constexpr std::int32_t kMlaSlotStep = 2;

// The sequence in whose stretch of the line `position` lies. prefix [seqs + 1], prefix[0] = 0, ascending.
TESSERA_HD inline std::int32_t mla_seq_at(const std::int32_t* prefix, std::int32_t seqs,
                                          std::int64_t position) {
  std::int32_t low = 0;
  std::int32_t high = seqs;
  while (low < high) {  // the first i with prefix[i + 1] > position
    const std::int32_t middle = (low + high) / 2;
    if (prefix[middle + 1] > position) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Cut number `index` of 0..parts. prefix as above, over mla_cost.
TESSERA_HD inline MlaCut mla_even_cut(const MlaPlanRule& rule, const std::int32_t* prefix,
                                      std::int32_t index) {
  const std::int64_t total = prefix[rule.seqs];
  const std::int64_t position = total * index / rule.parts;
  if (position >= total) return {rule.seqs, 0};
  const std::int32_t seq = mla_seq_at(prefix, rule.seqs, position);
  const auto inside = static_cast<std::int32_t>(position - prefix[seq]);
  if (rule.fixed_tiles > 0) {
    return {seq, inside / (rule.overhead + rule.fixed_tiles) * rule.fixed_tiles};
  }
  const std::int32_t tiles = mla_tiles_of(rule, prefix[seq + 1] - prefix[seq]);
  const std::int32_t tile = inside - rule.overhead;
  // A rest shorter than an eighth of a part, and shorter than its own overhead, is not worth a split.
  const std::int64_t part = total / rule.parts;
  const std::int32_t least = static_cast<std::int32_t>(part / 8 < rule.overhead ? part / 8 : rule.overhead);
  if (tile <= least) return {seq, 0};
  if (tiles - tile <= least) return {seq + 1, 0};
  return {seq, tile};
}

// Cut number `index` when every part gets the same number of whole sequences.
TESSERA_HD inline MlaCut mla_whole_cut(const MlaPlanRule& rule, std::int32_t index) {
  const std::int32_t each = (rule.seqs + rule.parts - 1) / rule.parts;
  const std::int64_t seq = static_cast<std::int64_t>(index) * each;
  return {seq < rule.seqs ? static_cast<std::int32_t>(seq) : rule.seqs, 0};
}

// Cost of the whole sequences of part `index` under mla_whole_cut.
TESSERA_HD inline std::int32_t mla_whole_cost(const MlaPlanRule& rule, const std::int32_t* prefix,
                                              std::int32_t index) {
  return prefix[mla_whole_cut(rule, index + 1).seq] - prefix[mla_whole_cut(rule, index).seq];
}

// Cut number `index` when every sequence is cut into the same number of pieces, one a part.
TESSERA_HD inline std::int32_t mla_equal_pieces(const MlaPlanRule& rule) { return rule.parts / rule.seqs; }
TESSERA_HD inline MlaCut mla_equal_cut(const MlaPlanRule& rule, const std::int32_t* prefix,
                                       std::int32_t index) {
  const std::int32_t pieces = mla_equal_pieces(rule);
  const std::int32_t seq = index / pieces;
  if (seq >= rule.seqs) return {rule.seqs, 0};
  const std::int32_t tiles = mla_tiles_of(rule, prefix[seq + 1] - prefix[seq]);
  return {seq, static_cast<std::int32_t>(static_cast<std::int64_t>(tiles) * (index % pieces) / pieces)};
}
TESSERA_HD inline std::int32_t mla_equal_cost(const MlaPlanRule& rule, std::int32_t tiles) {
  const std::int32_t pieces = mla_equal_pieces(rule);
  return pieces > 0 ? (tiles + pieces - 1) / pieces + rule.overhead : 1 << 30;
}

// How the line is cut, given the dearest part under each of the simpler ways.
enum class MlaCutting : std::int32_t { kEven, kWhole, kEqual };
TESSERA_HD inline MlaCutting mla_choose_cutting(const MlaPlanRule& rule, const std::int32_t* prefix,
                                                std::int32_t dearest_whole, std::int32_t dearest_equal) {
  if (rule.fixed_tiles > 0) return MlaCutting::kEven;
  const std::int32_t enough = prefix[rule.seqs] / rule.parts + rule.split_cost;
  if (dearest_whole <= enough) return MlaCutting::kWhole;
  return dearest_equal <= enough ? MlaCutting::kEqual : MlaCutting::kEven;
}
TESSERA_HD inline MlaCut mla_cut(const MlaPlanRule& rule, const std::int32_t* prefix, MlaCutting cutting,
                                 std::int32_t index) {
  if (cutting == MlaCutting::kWhole) return mla_whole_cut(rule, index);
  if (cutting == MlaCutting::kEqual) return mla_equal_cut(rule, prefix, index);
  return mla_even_cut(rule, prefix, index);
}

TESSERA_HD inline bool mla_before(const MlaCut& a, const MlaCut& b) {
  return a.seq < b.seq || (a.seq == b.seq && a.tile < b.tile);
}

// The last of `count` non-empty, ascending parts that begins at or before `cut`.
TESSERA_HD inline std::int32_t mla_part_at(const MlaPart* parts, std::int32_t count, const MlaCut& cut) {
  std::int32_t low = 0;
  std::int32_t high = count;
  while (high - low > 1) {
    const std::int32_t middle = (low + high) / 2;
    if (mla_before(cut, parts[middle].begin)) {
      high = middle;
    } else {
      low = middle;
    }
  }
  return low;
}

// Pieces and slots of one sequence, once the non-empty parts are known. fixed_base: fixed splits of all
// sequences before this one.
TESSERA_HD inline MlaSeqPlan mla_seq_plan(const MlaPlanRule& rule, const MlaPart* parts, std::int32_t count,
                                          std::int32_t seq, std::int32_t tiles, std::int32_t fixed_base) {
  if (rule.fixed_tiles > 0) {
    const std::int32_t pieces = (tiles + rule.fixed_tiles - 1) / rule.fixed_tiles;
    return {tiles, pieces, fixed_base, fixed_base};
  }
  const std::int32_t first = mla_part_at(parts, count, {seq, 0});
  const std::int32_t last = mla_part_at(parts, count, {seq, tiles - 1});
  const bool begins_part = parts[first].begin.seq == seq && parts[first].begin.tile == 0;
  return {tiles, last - first + 1, kMlaSlotStep * first + (begins_part ? 0 : 1), kMlaSlotStep * first};
}

TESSERA_HD inline std::int32_t mla_slot(const MlaPlanRule& rule, const MlaSeqPlan& seq, std::int32_t piece) {
  if (piece == 0) return seq.first_slot;
  return seq.next_slots + piece * (rule.fixed_tiles > 0 ? 1 : kMlaSlotStep);
}

}  // namespace tessera::cuda

// mla_decode_*_sm90, swapped: attention of 1..8 query tokens a sequence over the latent KV cache, on Hopper's
// wgmma, with tokens and dimensions where other kernels have query rows.
//
// In, out: as mla_decode_sm90.cuh. Rows of e4m3 (with f16 or e4m3 products), 656-byte rows, and bf16 rows of
// few heads.
//
// Both products are computed transposed: S^T = K Q^T and O^T = V^T P^T. A wgmma takes its A operand from
// registers, so
//   rows of the cache stay in shared memory as they are stored and become operands on the way
//   (mla_swapped_rows.cuh); and query rows are the N of a wgmma, which may be 8, so few heads waste nothing.
// Bound: a tile (64 tokens) with 64 query rows costs 2,176 cycles of tensor cores. Shared memory is busy for
// 2,048: 288 to receive 36 KiB of fp8, 544 to read them twice, 1,088 for Q^T and P^T, 128 for P. One
// conversion instruction makes two operands: 272 a scheduler and tile.
// Roles: warpgroup 2 scores (S^T, softmax, P); 0 and 1 multiply values, each for 256 of the 512 dimensions,
// and add up P; one warp of warpgroup 3 asks the copy engine for tiles. The scorer begins the next tile
// before it takes the exponentials of the last, so products of three warpgroups are always queued. What
// bounds it in practice is the scorer's own chain of instructions: everything else is done by somebody else.
// P takes the place of the rope columns of its own tile where it fits, which nobody needs after the scores.
// The running maximum is raised only when a row outgrows it by 2^kRaise: seldom, so the usual tile needs no
// reduction over its tokens, only one vote.
#pragma once

#include <cmath>
#include <type_traits>

#include "backend/cuda/mla_swapped_rows.cuh"

namespace tessera::cuda::sm90 {

template <class Rows, int kN>  // kN: query rows of a tile, the N of a wgmma
struct SwappedConfig {
  static constexpr int kTokens = kMlaBlockSize;
  static constexpr int kThreads = 4 * 128;
  static constexpr int kValuesRegisters = 176;
  static constexpr int kScorerRegisters = 128;
  static constexpr int kFillerRegisters = 32;
  static_assert(
      2 * kValuesRegisters + kScorerRegisters + kFillerRegisters <= 4 * 128,
      "a block is given 128 registers a thread, and more than their sum would be waited for in vain");
  static constexpr int kSums = kN / 2;  // f32 of a [64, kN] result, a thread

  // log2 by which a row may outgrow its maximum, and by which P is lifted. f16 and bf16 hold P up to 256 as
  // exactly as
  // 1. e4m3 ends at 448 and counts in steps of 2^-9 near 0, so there P is lifted: what is 2^16 below the
  // maximum is lost.
  static constexpr float kRaise = kIsMath<Rows> ? 2.5F : 8.0F;
  static constexpr float kLift = kIsMath<Rows> ? 6.0F : 0.0F;
  static constexpr float kNothing =
      -1e30F;  // maximum of a row that has seen nothing: finite, so that -inf minus it is -inf

  static constexpr int kChunks = kMlaDim / 64;
  static constexpr int kLatentBoxes = kMlaLatent / 64;
  static constexpr int kBoxes = kLatentBoxes + Rows::kRopeBoxes;
  static constexpr int kScaleBytes = Rows::kGrouped ? 16 * kTokens : 0;
  static constexpr int kStageBytes = kBoxes * Box<Rows>::kBytes + kScaleBytes;

  static constexpr int kQRow = kIsMath<Rows> ? 64 : 128;  // bytes of 64 dimensions
  static constexpr int kQChunk = kN * kQRow;
  static constexpr int kQBytes = kChunks * kQChunk;
  static constexpr int kPHalf = kN * 64;  // bytes: 32 tokens of 16 bits, or 64 of 8
  static constexpr int kPHalves = kIsMath<Rows> ? 1 : 2;
  static constexpr bool kPFitsRope = kPHalves * kPHalf <= Rows::kRopeBoxes * Box<Rows>::kBytes;
  static constexpr int kSpareBytes = kPFitsRope ? 0 : 2 * kPHalf;  // second halves of P, for two tiles

  // Offsets in dynamic shared memory, which begins on 1,024 bytes (checked).
  static constexpr int kMaxBytes = 227 * 1024;
  static constexpr int kStatistics = 44 * kN;
  static constexpr int kMostStages = 6;
  static constexpr int kStages = [] {
    int stages = kMostStages;
    while (kQBytes + kSpareBytes + kStatistics + 8 * (stages * 2 + 7) + stages * kStageBytes > kMaxBytes)
      --stages;
    return stages;
  }();
  static_assert(kStages >= 3);
  static constexpr int kQ = 0;
  static constexpr int kStage = kQBytes;
  static constexpr int kSpare = kStage + kStages * kStageBytes;
  static constexpr int kRule = kSpare + kSpareBytes;  // [kN / 2] {two scales, two maxima} f32, log2 domain
  static constexpr int kLimit = kRule + 8 * kN;       // [kN] KV rows that a query row sees
  static constexpr int kShrink = kLimit + 4 * kN;     // [2 tiles, kN] f32
  static constexpr int kTop =
      kShrink + 2 * 4 * kN;  // [2 pieces, kN] f32: 1 / sum, with the scale of the output
  static constexpr int kExchange = kTop + 2 * 4 * kN;   // [4 warps, kN] f32, of the scorer
  static constexpr int kFull = kExchange + 4 * 4 * kN;  // [stages] mbarrier
  static constexpr int kEmpty = kFull + 8 * kStages;    // [stages]
  static constexpr int kPFull = kEmpty + 8 * kStages;   // [2]
  static constexpr int kPEmpty = kPFull + 2 * 8;        // [2]
  static constexpr int kTopFull = kPEmpty + 2 * 8;      // [2]
  static constexpr int kRaised = kTopFull + 2 * 8;      // [2] whether kShrink matters
  static constexpr int kSharedBytes = kRaised + 8;
  static_assert(kSharedBytes <= kMaxBytes && kStageBytes % 1024 == 0 && kQBytes % 1024 == 0);
};

// Shared-memory addresses of this block.
template <class C>
struct SwappedPlace {
  std::uint32_t base;
  __device__ std::uint32_t q(int chunk) const { return base + C::kQ + chunk * C::kQChunk; }
  __device__ std::uint32_t stage(int s) const { return base + C::kStage + s * C::kStageBytes; }
  // P of the tile in stage `s`; `parity` of the tile.
  __device__ std::uint32_t p(std::uint32_t stage_at, int parity, int half, int box_bytes) const {
    const std::uint32_t rope = stage_at + C::kLatentBoxes * box_bytes;
    if (C::kPFitsRope) return rope + half * C::kPHalf;
    return half == 0 ? rope : base + C::kSpare + parity * C::kPHalf;
  }
  __device__ std::uint32_t scales(std::uint32_t stage_at, int box_bytes) const {
    return stage_at + C::kBoxes * box_bytes;
  }
  __device__ std::uint32_t rule(int row) const { return base + C::kRule + 8 * row; }  // of an even row
  __device__ std::uint32_t limit(int row) const { return base + C::kLimit + 4 * row; }
  __device__ std::uint32_t shrink(int parity, int row) const {
    return base + C::kShrink + parity * ((C::kTop - C::kShrink) / 2) + 4 * row;
  }
  __device__ std::uint32_t top(int parity, int row) const {
    return base + C::kTop + parity * ((C::kExchange - C::kTop) / 2) + 4 * row;
  }
  __device__ std::uint32_t exchange(int warp, int row) const {
    return base + C::kExchange + warp * ((C::kFull - C::kExchange) / 4) + 4 * row;
  }
  __device__ std::uint32_t full(int s) const { return base + C::kFull + 8 * s; }
  __device__ std::uint32_t empty(int s) const { return base + C::kEmpty + 8 * s; }
  __device__ std::uint32_t p_full(int parity) const { return base + C::kPFull + 8 * parity; }
  __device__ std::uint32_t p_empty(int parity) const { return base + C::kPEmpty + 8 * parity; }
  __device__ std::uint32_t top_full(int parity) const { return base + C::kTopFull + 8 * parity; }
  __device__ std::uint32_t raised(int parity) const { return base + C::kRaised + 4 * parity; }
};

enum SwappedNamed : int { kScorers = 1, kMultipliers = 2 };

}  // namespace tessera::cuda::sm90

// mla_decode_bf16_sm90: attention of 1..8 query tokens a sequence over the latent KV cache, on Hopper's
// wgmma, bf16 rows.
//
// In   q        [seqs * q_tokens, heads, 576]  absorbed queries, bf16
//      kv       [blocks, 64, row]              latent 512 + rope 64; one row is shared by all heads
// Out  out      [seqs * q_tokens, heads, 512] and lse, or for sequences that are split partial results in f32
//
// Bound: a bf16 row is 1,152 bytes and feeds 2*64*(576+512) = 139 kFLOP at 64 rows of Q: 121 FLOP/byte. One
// H200 (measured 4,493 GB/s, 785 TFLOP/s) balances at 175, so one query token of 64 heads is bound by memory,
// two or more by the tensor cores.
// Work: a thread block takes one 64-row tile of Q (query tokens x heads) and one part of the plan
// (mla_plan.h).
// Roles: warpgroups 0 and 1 consume (mla_consume_sm90.cuh), warpgroup 2 fills (mla_kernel_sm90.cuh). KV tiles
// of 64 tokens alternate between two stages. Tiles in stage w are *scored* by warpgroup w (S = Q K^T,
// softmax); every tile's P V is done by both, each for 256 of the 512 columns, because 64 x 512 f32 fits no
// single warpgroup's registers. So the tensor cores do one warpgroup's products while the other takes
// exponentials.
// Hand-over: the scorer writes P over the rope columns of its own tile (chunk 8), which nobody needs any more
// after the scores: 64 x 64 values, exactly its size. One named barrier a tile publishes P, the running row
// maximum and the factor by which older sums shrink. The maximum is raised only when a row outgrows it by
// 2^8, so shrinking is rare.
// Stages are released in quarters of 128 columns, each by the warpgroup that multiplies it, as soon as it
// has: with two stages the time between release and arrival of the next tile is what the tensor cores wait
// for.
// Shared memory (bytes): Q 73,728; two KV stages of 73,728; row statistics 1,792; barriers. 219 of 227 KiB.
#pragma once

#include <cmath>
#include <type_traits>

#include "backend/cuda/mla_kernel.h"
#include "backend/cuda/mla_numbers_sm90.cuh"
#include "backend/cuda/sm90.cuh"
#include "backend/cuda/wgmma_sm90.cuh"

namespace tessera::cuda::sm90 {

struct Config {
  static constexpr int kRows = 64;          // of Q: the M of one wgmma
  static constexpr int kTile = 64;          // KV tokens: one cache block
  static constexpr int kChunkColumns = 64;  // 128 bytes of 16-bit values: the widest swizzle
  static constexpr int kChunks = kMlaDim / kChunkColumns;
  static constexpr int kLatentChunks = kMlaLatent / kChunkColumns;
  static constexpr int kHalfChunks = kLatentChunks / 2;  // of one consumer
  static constexpr int kRopeChunk = kLatentChunks;       // later holds P
  static constexpr int kQuarters = 4;  // released one by one: quarters 2 w and 2 w + 1 by consumer w
  static constexpr int kQuarterChunks = kLatentChunks / kQuarters;
  static constexpr int kStages = 2;
  static constexpr int kChunkBytes = kTile * 128;
  static constexpr int kTileBytes = kChunks * kChunkBytes;
  static constexpr int kSwizzleGroup = 8 * 128;  // bytes of the 8 rows over which the swizzle repeats
  static constexpr int kThreads = 3 * 128;
  static constexpr int kConsumers = 2 * 128;
  static constexpr int kConsumerRegisters = 232;
  static constexpr int kFillerRegisters = 40;
  static constexpr float kRaise =
      8.0F;  // log2 by which a row may outgrow its maximum: P stays under 256, exact enough in
             // bf16 and f16, and sums under 2^8 * 2^17 rows, far from the end of f32

  // Offsets in dynamic shared memory, from a 1,024-byte boundary.
  static constexpr int kQ = 0;
  static constexpr int kStage = kTileBytes;
  static constexpr int kMaximum = kStage + kStages * kTileBytes;  // [64] f32, log2 domain
  static constexpr int kShrink = kMaximum + 4 * kRows;            // [stages, 64] f32
  static constexpr int kSum = kShrink + kStages * 4 * kRows;      // [2 pieces, 2 warpgroups, 64] f32
  static constexpr int kFull = kSum + 2 * 2 * 4 * kRows;          // [stages, chunks] mbarrier
  static constexpr int kEmpty = kFull + kStages * kChunks * 8;    // [stages, quarters]
  static constexpr int kQFull = kEmpty + kStages * kQuarters * 8;
  static constexpr int kQEmpty = kQFull + 8;
  static constexpr int kSharedBytes = kQEmpty + 8 + 1024;  // 1,024 to reach the boundary
};
static_assert(Config::kTileBytes % 1024 == 0, "swizzled tiles start on 1,024 bytes");
static_assert(Config::kRopeChunk + 1 == Config::kChunks && Config::kTile == Config::kChunkColumns,
              "P [64 rows, 64 tokens] takes the place of the rope chunk");
static_assert(Config::kSharedBytes <= 227 * 1024);

// Named barriers. 0 is __syncthreads.
enum Named : int {
  kPublished0 = 1,
  kPublished1 = 2,
  kConsumersMeet = 3,
  kGroup0 = 4,
  kGroup1 = 5,
  kFiller = 6
};

// Chunks in the order in which their quarters are released, which is the order of copying and of scoring.
__device__ constexpr int chunk_at(int i) {
  constexpr int kOrder[Config::kChunks] = {0, 1, 4, 5, 2, 3, 6, 7, 8};
  return kOrder[i];
}

// Shared-memory addresses of this block.
struct Place {
  std::uint32_t base;
  __device__ std::uint32_t q() const { return base + Config::kQ; }
  __device__ std::uint32_t stage(int s) const { return base + Config::kStage + s * Config::kTileBytes; }
  __device__ std::uint32_t maximum(int row) const { return base + Config::kMaximum + 4 * row; }
  __device__ std::uint32_t shrink(int s, int row) const {
    return base + Config::kShrink + 4 * (s * Config::kRows + row);
  }
  __device__ std::uint32_t sum(int piece, int group, int row) const {
    return base + Config::kSum + 4 * ((2 * (piece & 1) + group) * Config::kRows + row);
  }
  __device__ std::uint32_t full(int s, int chunk) const {
    return base + Config::kFull + 8 * (s * Config::kChunks + chunk);
  }
  __device__ std::uint32_t empty(int s, int quarter) const {
    return base + Config::kEmpty + 8 * (Config::kQuarters * s + quarter);
  }
  __device__ std::uint32_t q_full() const { return base + Config::kQFull; }
  __device__ std::uint32_t q_empty() const { return base + Config::kQEmpty; }
};

}  // namespace tessera::cuda::sm90

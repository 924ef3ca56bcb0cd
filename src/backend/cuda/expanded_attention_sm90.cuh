// expanded_attention_sm90: attention of many query tokens over expanded keys and values, wgmma, bf16.
//
// In   q        [tokens, heads, 192]  nope 128, then rope 64
//      keys     [rows, heads, 128]    nope part; rows of one chunk
//      latents  [rows, 576]           the last 64 are the rope part, shared by all heads
//      values   [rows, heads, 128]
//      tiles    [tiles]               up to 128 query tokens and what they see (prefill_plan.h)
// Out  out      [tokens, heads, 128] and lse [tokens, heads], which a later round starts from
//
// Bound: the tensor cores. 128 tokens of a head meet 128 rows in 2*128*128*(192+128) = 10.5 MFLOP, 2,560
// cycles of a multiprocessor. Shared memory is busy for 2,300 of them: the first product reads Q and K, the
// second V (P comes from registers), the copy engine writes. The special units take 1,024 for exponentials.
// L2 brings 80 KiB: at 700 TFLOP/s 5.5 TB/s over all multiprocessors.
//
// Work: an item is a tile and a head. Blocks stay; one thread of each draws the next item from a counter, the
// longest first, so that those at the end are short. Heads are taken in groups whose keys and values fit L2.
//
// Roles: warpgroups 0 and 1 consume, 64 tokens each (expanded_consume_sm90.cuh). One thread of warpgroup 2
// draws items and asks the copy engine. Keys and values have two stages of 128 rows each.
//
// Order of a consumer: it asks for the next tile's scores, then for this tile's values; while both are
// multiplied it takes the exponentials of the scores as soon as these are there. The consumers take turns in
// asking, so that the products of one run while the other takes exponentials.
//
// Shared memory (bytes): Q 49,152; two stages of keys of 49,152 and of values of 32,768. 209 of 227 KiB.
#pragma once

#include <cuda.h>

#include "backend/cuda/mla_prefill.h"
#include "backend/cuda/sm90.cuh"

namespace tessera::cuda::sm90 {

struct Expanded {
  static constexpr int kNope = 128;
  static constexpr int kRope = 64;
  static constexpr int kValue = 128;
  static constexpr int kTokens = kTileTokens;  // of an item: 64, the M of a wgmma, for each consumer
  static constexpr int kRows = 128;            // of a tile of keys: the N of a wgmma
  static constexpr int kStages = 2;
  static constexpr int kColumns = 64;  // of a chunk: 128 bytes, the widest swizzle
  static constexpr int kQueryChunks = (kNope + kRope) / kColumns;
  static constexpr int kNopeChunks = kNope / kColumns;
  static constexpr int kValueChunks = kValue / kColumns;
  static constexpr int kChunkBytes = kRows * 128;  // of keys or values; of queries too
  static constexpr int kQueryBytes = kQueryChunks * kChunkBytes;
  static constexpr int kValueBytes = kValueChunks * kChunkBytes;
  static constexpr int kSwizzleGroup = 8 * 128;  // bytes of the 8 rows over which the swizzle repeats
  static constexpr int kThreads = 3 * 128;
  static constexpr int kConsumers = 2 * 128;
  static constexpr int kConsumerRegisters = 240;
  static constexpr int kFillerRegisters = 24;
  static constexpr float kLog2E = 1.4426950408889634F;
  static constexpr float kRaise = 8.0F;  // log2 by which a row may outgrow its maximum: P stays under 256

  // Offsets in dynamic shared memory, from a 1,024-byte boundary.
  static constexpr int kKeys = kQueryBytes;
  static constexpr int kValues = kKeys + kStages * kQueryBytes;
  static constexpr int kItem = kValues + kStages * kValueBytes;
  static constexpr int kBarriers = kItem + 32;
  static constexpr int kSharedBytes =
      kBarriers + (2 + 4 * kStages) * 8 + 1024;  // 1,024 to reach the boundary
};
static_assert(Expanded::kTokens == Expanded::kRows, "a chunk of queries is as large as one of keys");
static_assert(kPieceAlign % Expanded::kRows == 0, "a tile never holds rows of two sequences");
static_assert(Expanded::kSharedBytes <= 227 * 1024);
// A block is given 168 registers a thread at its start, and more than their sum would be waited for in vain.
static_assert(2 * Expanded::kConsumerRegisters + Expanded::kFillerRegisters <= 3 * 168);

// What the copy engine reads.
struct ExpandedMaps {
  CUtensorMap q, keys, ropes, values;
};

// A tile of one head. In shared memory its fields lie in this order, 32 bytes.
struct Item {
  std::int32_t first_token;
  std::int32_t tokens;  // 0: there is no more work
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t full_rows;
  std::int32_t head;
};

struct ExpandedPlace {
  std::uint32_t base;
  __device__ std::uint32_t q() const { return base; }
  __device__ std::uint32_t keys(int stage) const {
    return base + Expanded::kKeys + stage * Expanded::kQueryBytes;
  }
  __device__ std::uint32_t values(int stage) const {
    return base + Expanded::kValues + stage * Expanded::kValueBytes;
  }
  __device__ std::uint32_t item() const { return base + Expanded::kItem; }
  __device__ std::uint32_t barrier(int i) const { return base + Expanded::kBarriers + 8 * i; }
  __device__ std::uint32_t q_full() const { return barrier(0); }  // Q and the item
  __device__ std::uint32_t q_empty() const { return barrier(1); }
  __device__ std::uint32_t keys_full(int stage) const { return barrier(2 + stage); }
  __device__ std::uint32_t keys_empty(int stage) const { return barrier(4 + stage); }
  __device__ std::uint32_t values_full(int stage) const { return barrier(6 + stage); }
  __device__ std::uint32_t values_empty(int stage) const { return barrier(8 + stage); }
};

// Stage and phase of the n-th tile that a block takes.
__device__ __forceinline__ int stage_of(std::uint32_t n) { return static_cast<int>(n & 1); }
__device__ __forceinline__ std::uint32_t phase_of(std::uint32_t n) { return n >> 1 & 1; }

// Named barriers. 0 is __syncthreads. A consumer asks for products when it is its turn.
enum ExpandedNamed : int { kTurn0 = 1, kTurn1 = 2 };

}  // namespace tessera::cuda::sm90

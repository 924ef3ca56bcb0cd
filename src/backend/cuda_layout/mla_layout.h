// How decode attention over the latent cache runs on a device: launches and scratch, from the shape alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda_layout/device_traits.h"
#include "base/result.h"
#include "tensor/kv_format.h"

namespace tessera::cuda {

inline constexpr int kMlaLatent = 512;
inline constexpr int kMlaRope = 64;
inline constexpr int kMlaDim = kMlaLatent + kMlaRope;
inline constexpr int kMlaBlockSize = 64;  // KV tokens a cache block; the only size offered
inline constexpr int kMlaMaxQueryTokens = 8;
inline constexpr int kMlaMaxHeads = 128;
inline constexpr int kMlaMaxSeqs = 8192;  // the planner keeps one prefix sum a sequence in shared memory

enum class MlaKernel : std::uint8_t {
  kAuto,      // the fastest that the device and the shape allow
  kSm90,      // wgmma, 8 to 64 query rows a tile
  kPortable,  // mma.sync, 16 or 32 query rows a tile, sm_80 and newer
};

// What fixes launches and scratch.
struct MlaDecodeShape {
  KvFormat kv = KvFormat::kBF16;  // kBF16, kFp8 or kFp8Grouped
  std::int32_t seqs = 0;
  std::int32_t q_tokens = 1;           // query tokens a sequence, 1..8
  std::int32_t heads = 0;              // query heads on this rank after gathering, 1..128
  std::int32_t max_blocks = 0;         // columns of the block table
  bool out_f32 = false;                // out is f32 instead of bf16
  std::int32_t fixed_split_tiles = 0;  // > 0: split at multiples of so many 64-token tiles whatever else is
                                       // in the batch, which makes results independent of the batch
  MlaKernel kernel = MlaKernel::kAuto;
  std::int32_t parts = 0;  // thread blocks (times row tiles) to divide the work over; 0: fill the device
  bool fp8_math = false;   // kFp8 on Hopper: round queries and probabilities to e4m3 too, which halves the
                           // cost of products; the error this makes is in docs/reference/mla-decode-h200.md
  bool operator==(const MlaDecodeShape&) const = default;
};

// How a shape runs on a device.
struct MlaDecodeLayout {
  MlaDecodeShape shape;
  MlaKernel kernel = MlaKernel::kAuto;  // never kAuto
  std::int32_t tile_rows = 0;           // query rows (token-major: token * heads + head) of one tile
  std::int32_t row_tiles = 0;           // tiles that cover q_tokens * heads rows of one sequence
  std::int32_t multiprocessors = 0;     // of the device
  bool late = false;                // sm90: order of work for tiles that come from L2 (mla_decode_sm90.cuh)
  std::int32_t parts = 0;           // contiguous ranges of work, each run by row_tiles thread blocks
  std::int32_t slots = 0;           // partial results that fit the scratch, each q_tokens * heads rows
  std::int32_t piece_overhead = 0;  // cost of starting on a sequence, in tiles
  std::int32_t split_cost = 0;      // imbalance, in tiles, that is cheaper than splitting and merging
  std::size_t parts_offset = 0;     // into the workspace, bytes, as all below
  std::size_t seqs_offset = 0;
  std::size_t split_offset = 0;
  std::size_t out_offset = 0;
  std::size_t lse_offset = 0;
  std::size_t workspace_bytes = 0;
};

Result<MlaDecodeLayout> mla_decode_layout(const MlaDecodeShape& shape, const DeviceTraits& device);

}  // namespace tessera::cuda

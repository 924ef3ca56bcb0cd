// Sizes of the many-row product on Hopper, its ring of stages in shared memory, and which tile a block makes.
#pragma once

#include "backend/cuda/product_many_sm90.h"
#include "backend/cuda/sm90.cuh"

namespace tessera::cuda {

template <WeightFormat F>
struct ManyNumbers;
template <>
struct ManyNumbers<WeightFormat::kBF16> {
  static constexpr int kGroups = 2;    // warpgroups that multiply
  static constexpr int kBoxRows = 64;  // of x, one copy
  static constexpr int kCols = 64;     // a stage
  static constexpr int kStages = 4;
  static constexpr int kWeightBytes = 1024;  // of 8 rows, a stage
  static constexpr int kScaleBytes = 0;
};
template <>
struct ManyNumbers<WeightFormat::kFp8Block128> {
  static constexpr int kGroups = 3;
  static constexpr int kBoxRows = 32;
  static constexpr int kCols = 128;
  static constexpr int kStages = 4;
  static constexpr int kWeightBytes = 1024;
  static constexpr int kScaleBytes = 32;
};
template <>
struct ManyNumbers<WeightFormat::kInt4Group32> {
  static constexpr int kGroups = 3;
  static constexpr int kBoxRows = 32;
  static constexpr int kCols = 128;
  static constexpr int kStages = 4;
  static constexpr int kWeightBytes = 512;
  static constexpr int kScaleBytes = 64;
};

template <WeightFormat F>
struct ManyShape : ManyNumbers<F> {
  using N = ManyNumbers<F>;
  static constexpr int kXRows = many_rows_sm90(F);
  static constexpr int kHalves = N::kCols / 64;    // rows of x lie as 128-byte pieces
  static constexpr int kHalfBytes = kXRows * 128;  // of x, 64 columns
  static constexpr int kXBytes = kHalves * kHalfBytes;
  static constexpr int kBoxBytes = N::kBoxRows * 128;
  static constexpr int kPairs = 4 * N::kGroups;  // of 8-row groups, one a warp
  static constexpr int kWeights = 2 * kPairs * N::kWeightBytes;
  static constexpr int kScales = 2 * kPairs * N::kScaleBytes;
  static constexpr int kStageBytes =
      (kXBytes + kWeights + kScales + 1023) / 1024 * 1024;  // swizzling counts from 1024
  static constexpr int kStoredRows = 32;                    // of x, that go to y at once
  static constexpr int kStorePitch = 64 * 2 + 16;           // of 64 columns; 16 more against bank conflicts
  static constexpr int kStoreBytes = kStoredRows * kStorePitch;  // a warpgroup
  static constexpr int kSharedBytes =
      N::kStages * kStageBytes + N::kGroups * kStoreBytes + 2 * N::kStages * 8 + 1024;
  static constexpr int kThreads = 128 * N::kGroups + 128;  // registers are moved between whole warpgroups
  static constexpr int kMakerRegisters = N::kGroups == 2 ? 240 : 160;  // of a thread that multiplies
  static constexpr int kAskerRegisters = N::kGroups == 2 ? 24 : 32;
  static_assert(kSharedBytes <= 227 * 1024, "what a block of Hopper can have");
};

template <WeightFormat F>
using ManyPlace = Ring<ManyShape<F>::kStages>;  // where a role is in it

template <WeightFormat F>
struct ManyRing {
  using S = ManyShape<F>;
  std::uint32_t base;  // stages, then what is stored, then barriers
  __device__ std::uint32_t x(int stage) const {
    return base + static_cast<std::uint32_t>(stage * S::kStageBytes);
  }
  __device__ std::uint32_t weights(int stage) const { return x(stage) + S::kXBytes; }
  __device__ std::uint32_t scales(int stage) const { return weights(stage) + S::kWeights; }
  __device__ std::uint32_t stored(int group) const {
    return base + static_cast<std::uint32_t>(S::kStages * S::kStageBytes + group * S::kStoreBytes);
  }
  __device__ std::uint32_t full(int stage) const {
    return stored(S::kGroups) + static_cast<std::uint32_t>(8 * stage);
  }
  __device__ std::uint32_t empty(int stage) const { return full(S::kStages + stage); }
};

struct ManyTile {
  ProductItem item;
  int row_block;
};
__device__ __forceinline__ ManyTile many_tile(const Product& p, const ManyPlan& plan, int tile) {
  if (p.items != nullptr) return {p.items[tile / plan.row_blocks], tile % plan.row_blocks};
  const int a_matrix = plan.row_blocks * plan.x_tiles;
  const int in_matrix = tile % a_matrix;
  const int group = in_matrix / (plan.group * plan.x_tiles);
  const int in_group = in_matrix - group * plan.group * plan.x_tiles;
  const int width = min(plan.group, plan.row_blocks - group * plan.group);
  const int first = in_group / width * plan.tile_rows;
  return {{tile / a_matrix, first, min(plan.tile_rows, p.rows - first)},
          group * plan.group + in_group % width};
}

// Columns that this block multiplies, of the blocks that share a tile.
struct LoadRange {
  int first;
  int end;
};
__device__ __forceinline__ LoadRange load_range(const ManyPlan& plan) {
  const int part = static_cast<int>(blockIdx.x) % plan.split;
  return {plan.loads * part / plan.split, plan.loads * (part + 1) / plan.split};
}
__device__ __forceinline__ int first_tile(const ManyPlan& plan) {
  return static_cast<int>(blockIdx.x) / plan.split;
}
__device__ __forceinline__ int tile_step(const ManyPlan& plan) {
  return static_cast<int>(gridDim.x) / plan.split;
}

}  // namespace tessera::cuda

// The many-row product on Hopper: sums of a tile to y.
#pragma once

#include "backend/cuda/product_few.cuh"
#include "backend/cuda/product_many_numbers_sm90.cuh"

namespace tessera::cuda {

__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}

// Two rows of x (those of sum[at], sum[at + 1]) of a gated result.
__device__ __forceinline__ float2 gated_pair(const float* sum) {
  return {silu(sum[0]) * sum[2], silu(sum[1]) * sum[3]};
}

struct RowRange {  // of a tile
  int first;
  int end;
};

// Blocks that share the columns of a tile: each gets its part of the rows of x, and the sums of all over
// them, in the order of the columns. The ring's memory is free by then: such a block has one tile.
template <WeightFormat F, int kN>
__device__ __forceinline__ void add_up(const ManyPlan& plan, const ManyRing<F>& ring, float (&sum)[kN / 2],
                                       RowRange& rows) {
  using S = ManyShape<F>;
  constexpr int kThreads = 128 * S::kGroups;
  constexpr int kEighths = kN / 8;  // of rows
  static_assert(kEighths * kThreads * 16 <= S::kStages * S::kStageBytes);
  const int part = static_cast<int>(blockIdx.x) % plan.split;
  const int each = (kEighths + plan.split - 1) / plan.split;
  const auto sums_at = [&](int i) {
    return ring.base + (static_cast<std::uint32_t>(i * kThreads) + threadIdx.x) * 16;
  };
  named_sync(1 + S::kGroups, kThreads);  // all warpgroups have multiplied
#pragma unroll
  for (int i = 0; i < kEighths; ++i) {
    store_shared(sums_at(i), uint4{__float_as_uint(sum[4 * i]), __float_as_uint(sum[4 * i + 1]),
                                   __float_as_uint(sum[4 * i + 2]), __float_as_uint(sum[4 * i + 3])});
  }
  cluster_sync();
#pragma unroll
  for (int i = 0; i < kEighths; ++i) {
    if (i / each != part) continue;
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[4 * i + e] = 0;
    for (int block = 0; block < plan.split; ++block) {
      const float4 other = load_of_cluster(sums_at(i), block);
      sum[4 * i] += other.x;
      sum[4 * i + 1] += other.y;
      sum[4 * i + 2] += other.z;
      sum[4 * i + 3] += other.w;
    }
  }
  cluster_sync();  // nobody leaves while others read
  rows = {part * each * 8, min((part + 1) * each * 8, rows.end)};
}

// What x was divided by and W multiplied with (`down`: by what again).
template <int kN>
__device__ __forceinline__ void scale_sums(const Product& p, const ProductItem& item, const RowRange& rows,
                                           float down, float (&sum)[kN / 2]) {
  const float* scales = p.x_scale + item.first;
#pragma unroll
  for (int i = 0; i < kN / 8; ++i) {
    const int row = 8 * i + static_cast<int>(threadIdx.x) % 4 * 2;
    const float first = row < rows.end ? scales[row] * down : 0.0F;
    const float second = row + 1 < rows.end ? scales[row + 1] * down : 0.0F;
    sum[4 * i] *= first;
    sum[4 * i + 1] *= second;
    sum[4 * i + 2] *= first;
    sum[4 * i + 3] *= second;
  }
}

// The columns of y of one warpgroup: through shared memory, where they come to lie along the rows of y.
template <WeightFormat F, int kN>
__device__ __forceinline__ void store_tile(const Product& p, const ManyPlan& plan, const ManyTile& tile,
                                           const RowRange& rows, const float (&sum)[kN / 2],
                                           std::uint32_t stored, int group) {
  using S = ManyShape<F>;
  const ProductItem& item = tile.item;
  const auto is_mine = [&](int row) { return row >= rows.first && row < rows.end; };
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int warp = thread / 32;
  const int lane = thread % 32;
  const int pair_cols = p.gated ? 8 : 16;
  const int first_col = (tile.row_block * S::kPairs + 4 * group) * pair_cols;
  const int out = p.gated ? p.weight.out / 2 : p.weight.out;
  if (p.y_dtype == DType::kF32) {
    const int col = first_col + warp * pair_cols + lane / 4;
#pragma unroll
    for (int i = 0; i < kN / 8; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = 8 * i + lane % 4 * 2 + e % 2;
        if (!is_mine(row) || (p.gated && e >= 2) || col + e / 2 * 8 >= out) continue;
        const float value = p.gated ? silu(sum[4 * i + e % 2]) * sum[4 * i + e % 2 + 2] : sum[4 * i + e];
        store_y(p, item, item.first + row, col + e / 2 * 8, value);
      }
    }
    return;
  }
  const int pieces = p.gated ? 4 : 8;  // of 16 bytes, of a row
#pragma unroll
  for (int first = 0; first < kN; first += S::kStoredRows) {
    if (first >= rows.end || first + S::kStoredRows <= rows.first) continue;
    named_sync(1 + group, 128);  // what lay there is in y
    if (p.gated) {
      const std::uint32_t to = stored + static_cast<std::uint32_t>(lane * S::kStorePitch + warp * 16);
      std::uint32_t m[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + 8 * i >= kN) continue;
        const float2 v = gated_pair(sum + (first / 8 + i) * 4);
        m[i] = pack_bf16(v.x, v.y);
      }
      if (kN - first >= 32) {
        store_matrices_transposed(to, m);
      } else {
        const std::uint32_t two[2] = {m[0], m[1]};
        store_matrices_transposed(stored + static_cast<std::uint32_t>(lane % 16 * S::kStorePitch + warp * 16),
                                  two);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (first + 16 * i >= kN) continue;
        const float* s = sum + (first / 8 + 2 * i) * 4;
        const std::uint32_t m[4] = {pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]), pack_bf16(s[4], s[5]),
                                    pack_bf16(s[6], s[7])};
        const int row = 16 * i + lane / 16 * 8 + lane % 8;
        store_matrices_transposed(
            stored + static_cast<std::uint32_t>(row * S::kStorePitch + warp * 32 + lane / 8 % 2 * 16), m);
      }
    }
    named_sync(1 + group, 128);
    for (int at = thread; at < S::kStoredRows * pieces; at += 128) {
      const int row = at / pieces;
      const int col = first_col + at % pieces * 8;
      if (!is_mine(first + row) || col >= out) continue;
      const std::uint32_t from = stored + static_cast<std::uint32_t>(row * S::kStorePitch);
      bf16* to = static_cast<bf16*>(p.y) + item.matrix * p.y_matrix_stride +
                 (item.first + std::int64_t{first + row}) * p.y_stride + col;
      const uint4 piece = load_shared_4(from + static_cast<std::uint32_t>(16 * (at % pieces)));
      if (plan.vector_y && col + 8 <= out) {
        *reinterpret_cast<uint4*>(to) = piece;
      } else {
        const auto* values = reinterpret_cast<const bf16*>(&piece);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          if (col + i < out) to[i] = values[i];
        }
      }
    }
  }
}

}  // namespace tessera::cuda

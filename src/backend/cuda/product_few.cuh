// A product with few rows of x. A block owns 16 x kTiles rows of W and up to 8 x kXTiles rows of x; its warps
// share the columns and add their sums in order at the end. Weights go from memory to registers, one load
// ahead; x comes from the L1 cache.
#pragma once

#include "backend/cuda/device.h"
#include "backend/cuda/product.h"
#include "backend/cuda/weight_fragment.cuh"
#include "base/check.h"

namespace tessera::cuda {

__device__ __forceinline__ float silu(float x) { return x / (1.0F + expf(-x)); }

// Which rows of x a block has, from its list or from its place in the grid.
__device__ __forceinline__ bool find_item(const Product& p, int x_tile, ProductItem& item) {
  if (p.items != nullptr) {
    if (static_cast<std::int32_t>(blockIdx.y) >= *p.item_count) return false;
    item = p.items[blockIdx.y];
    return true;
  }
  item.matrix = static_cast<std::int32_t>(blockIdx.z);
  item.first = static_cast<std::int32_t>(blockIdx.y) * x_tile;
  item.count = min(x_tile, p.rows - item.first);
  return true;
}

__device__ __forceinline__ void store_y(const Product& p, const ProductItem& item, std::int64_t row,
                                        std::int64_t col, float value) {
  const std::int64_t at = item.matrix * p.y_matrix_stride + row * p.y_stride + col;
  if (p.y_dtype == DType::kF32) {
    static_cast<float*>(p.y)[at] = value;
  } else {
    static_cast<bf16*>(p.y)[at] = narrow<bf16>(value);
  }
}

template <WeightFormat F, int kXTiles, int kTiles, int kWarps>
__global__ void __launch_bounds__(32 * kWarps) product_few_kernel(const __grid_constant__ Product p) {
  using Fragment = WeightFragment<F>;
  constexpr int kXRows = 8 * kXTiles;
  constexpr int kRows = 16 * kTiles;
  __shared__ float parts[kWarps][kXRows][kRows + 1];
  ProductItem item;
  if (!find_item(p, kXRows, item)) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;

  // Row tiles of W: neighbours, or a gate tile and its up tile.
  std::int64_t first_row[kTiles];
  WeightRows rows[kTiles];
  const std::int64_t last_tile = padded(p.weight.out, 16) - 16;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    first_row[i] = p.gated ? std::int64_t{blockIdx.x} * 16 + i * (p.weight.out / 2)
                           : (std::int64_t{blockIdx.x} * kTiles + i) * 16;
    rows[i] = Fragment::rows(p.weight, item.matrix, min(first_row[i], last_tile), lane);
  }

  const bf16* x[kXTiles];  // this lane's part of its rows; null: a row that is not there
#pragma unroll
  for (int n = 0; n < kXTiles; ++n) {
    const int r = n * 8 + lane / 4;
    const std::int64_t row = item.first + r;
    x[n] = r < item.count ? static_cast<const bf16*>(p.x) + item.matrix * p.x_matrix_stride +
                                (p.x_rows ? p.x_rows[row] : row) * p.x_stride + lane % 4 * 8
                          : nullptr;
  }

  float sum[kTiles][kXTiles][4] = {};
  const int loads = p.weight.padded_in / Fragment::kCols;
  Fragment next[kTiles];
  if (warp < loads) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) next[i].load(rows[i], std::int64_t{warp} * Fragment::kCols);
  }
  for (int load = warp; load < loads; load += kWarps) {
    Fragment now[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) now[i] = next[i];
    if (load + kWarps < loads) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) next[i].load(rows[i], std::int64_t{load + kWarps} * Fragment::kCols);
    }
#pragma unroll
    for (int j = 0; j < Fragment::kCols / 32; ++j) {
      const int col = load * Fragment::kCols + 32 * j;
      const bool inside = col + lane % 4 * 8 < p.weight.in;
      uint4 value[kXTiles];
#pragma unroll
      for (int n = 0; n < kXTiles; ++n) {
        value[n] = x[n] != nullptr && inside ? __ldg(reinterpret_cast<const uint4*>(x[n] + col))
                                             : make_uint4(0, 0, 0, 0);
      }
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        std::uint32_t a[2][4];
        now[i].unpack(j, a);
#pragma unroll
        for (int n = 0; n < kXTiles; ++n) {
          multiply_32<Fragment>(sum[i][n], a, value[n], now[i].low_scale(j), now[i].high_scale(j));
        }
      }
    }
  }

  const int g = lane / 4;
  const int t = lane % 4;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int n = 0; n < kXTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) parts[warp][n * 8 + 2 * t + c % 2][i * 16 + g + c / 2 * 8] = sum[i][n][c];
    }
  }
  __syncthreads();
  const int out_rows = p.gated ? kRows / 2 : kRows;
  const std::int64_t out = p.gated ? p.weight.out / 2 : p.weight.out;
  for (int at = static_cast<int>(threadIdx.x); at < item.count * out_rows; at += 32 * kWarps) {
    const int x_row = at / out_rows;
    const int r = at % out_rows;
    const std::int64_t col = p.gated ? first_row[0] + r : std::int64_t{blockIdx.x} * kRows + r;
    if (col >= out) continue;
    float value = 0;
    float up = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      value += parts[w][x_row][r];
      if (p.gated) up += parts[w][x_row][16 % kRows + r];
    }
    store_y(p, item, item.first + x_row, col, p.gated ? silu(value) * up : value);
  }
}

template <WeightFormat F, int kXTiles>
void launch_few(const Product& p, cudaStream_t stream) {
  // Thin matrices: more warps share the columns, so that enough loads are under way.
  constexpr std::int64_t kThin = 16384;  // rows of all matrices
  const std::int64_t matrices = p.items ? p.item_limit : p.weight.count;
  const bool thin = !p.gated && p.weight.out * matrices < kThin;
  const std::int64_t rows = p.gated ? p.weight.out / 2 : p.weight.out;
  const int block_rows = p.gated || thin ? 16 : 32;
  dim3 grid(grid_of(rows, block_rows));
  if (p.items != nullptr) {
    grid.y = static_cast<unsigned>(p.item_limit);
  } else {
    grid.y = grid_of(p.rows, 8 * kXTiles);
    grid.z = static_cast<unsigned>(p.weight.count);
  }
  if (thin) {
    product_few_kernel<F, kXTiles, 1, 8><<<grid, 256, 0, stream>>>(p);
  } else {
    product_few_kernel<F, kXTiles, 2, 4><<<grid, 128, 0, stream>>>(p);
  }
  TS_CUDA(cudaGetLastError());
}

template <WeightFormat F>
void launch_few_of(const Product& p, int x_tile, cudaStream_t stream) {
  switch (x_tile) {
    case 8:
      return launch_few<F, 1>(p, stream);
    case 16:
      return launch_few<F, 2>(p, stream);
    case 32:
      return launch_few<F, 4>(p, stream);
    default:
      TS_CHECK(false, x_tile);
  }
}

}  // namespace tessera::cuda

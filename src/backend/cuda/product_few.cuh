// A product with few rows of x. A block owns 16 x kTiles rows of W and up to 8 x kXTiles rows of x; its warps
// share the columns and add their sums in order at the end. Weights pass through shared memory, where each
// lane has a queue of its own of kAhead loads, so that many are under way without registers for them, the
// first before the kernel before has ended. x comes from the L1 cache.
#pragma once

#include "backend/cuda/device.h"
#include "backend/cuda/overlap.cuh"
#include "backend/cuda/product.h"
#include "backend/cuda/weight_fragment.cuh"
#include "base/check.h"

namespace tessera::cuda {

// Which rows of x a block has, from its list or from its place in the grid.
__device__ __forceinline__ bool find_item(const Product& p, int x_tile, ProductItem& item) {
  if (p.items != nullptr) {
    const std::int32_t count = *p.item_count;
    item = p.items[blockIdx.y];  // at once with the count: memory is there even where there is no item
    return static_cast<std::int32_t>(blockIdx.y) < count;
  }
  if (p.ids != nullptr) {  // one token: its choices are the items
    item = {p.ids[blockIdx.y] - p.first_expert, static_cast<std::int32_t>(blockIdx.y), 1};
    return item.matrix >= 0 && item.matrix < p.weight.count;
  }
  item.matrix = static_cast<std::int32_t>(blockIdx.z);
  item.first = static_cast<std::int32_t>(blockIdx.y) * x_tile;
  item.count = min(x_tile, p.rows - item.first);
  return true;
}

// Where row `row` of the product's x lies.
__device__ __forceinline__ std::int64_t x_row_of(const Product& p, std::int64_t row) {
  if (p.x_rows != nullptr) return p.x_rows[row];
  return p.same_x ? 0 : row;
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

template <WeightFormat F, int kXTiles, int kTiles, int kWarps, int kAhead>
__global__ void __launch_bounds__(32 * kWarps, kXTiles == 1 ? 16 / kWarps : 1)
    product_few_kernel(const __grid_constant__ Product p) {
  using Fragment = WeightFragment<F>;
  constexpr int kXRows = 8 * kXTiles;
  constexpr int kRows = 16 * kTiles;
  __shared__ float parts[kWarps][kXRows][kRows + 1];
  ProductItem item;
  // What experts were chosen is the work of the kernels before, unless one of theirs is waited for already.
  if (p.waits_first) wait_for_previous();
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

  const int loads = p.weight.padded_in / Fragment::kCols;
  constexpr int kSteps = Fragment::kCols / 32;
  constexpr int kLoadBytes = kTiles * Fragment::kStageBytes;
  extern __shared__ __align__(16) unsigned char queues[];  // [warps][kAhead][kTiles]
  unsigned char* const queue = queues + warp * kAhead * kLoadBytes;
  const auto fetch = [&](int load, int place) {
    if (load < loads) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        Fragment::fetch(queue + place * kLoadBytes + i * Fragment::kStageBytes, rows[i],
                        std::int64_t{load} * Fragment::kCols, lane);
      }
    }
    copies_commit();
  };
#pragma unroll
  for (int a = 0; a < kAhead; ++a) fetch(warp + a * kWarps, a);
  // This lane's part of its rows. A row that is not there is the last one again; its result is not kept.
  // Columns past the end meet weights of 0, and are read as the last ones.
  const bf16* x[kXTiles];
#pragma unroll
  for (int n = 0; n < kXTiles; ++n) {
    const std::int64_t row = item.first + min(n * 8 + lane / 4, item.count - 1);
    x[n] = static_cast<const bf16*>(p.x) + item.matrix * p.x_matrix_stride + x_row_of(p, row) * p.x_stride;
  }
  const int last_col = p.weight.in - 8;
  if (!p.waits_first) wait_for_previous();

  float sum[kTiles][kXTiles][4] = {};
  const auto load_x = [&](int load, int j, int n) {
    const int col = min(load * Fragment::kCols + 32 * j + lane % 4 * 8, last_col);
    return *reinterpret_cast<const uint4*>(x[n] + col);
  };
  uint4 ahead[kXTiles];  // of the next 32 columns
#pragma unroll
  for (int n = 0; n < kXTiles; ++n) ahead[n] = load_x(warp, 0, n);
  int place = 0;
#pragma unroll 1
  for (int load = warp; load < loads; load += kWarps) {
    copies_wait<kAhead - 1>();
    __syncwarp();
    Fragment now[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i)
      now[i].take(queue + place * kLoadBytes + i * Fragment::kStageBytes, lane);
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      uint4 value[kXTiles];
#pragma unroll
      for (int n = 0; n < kXTiles; ++n) {
        value[n] = ahead[n];
        ahead[n] = j + 1 < kSteps ? load_x(load, j + 1, n) : load_x(load + kWarps, 0, n);
      }
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        std::uint32_t w[2][4];
        now[i].unpack(j, w);
#pragma unroll
        for (int n = 0; n < kXTiles; ++n) {
          multiply_32<Fragment>(sum[i][n], w, value[n], now[i].low_scale(j), now[i].high_scale(j));
        }
      }
    }
    __syncwarp();  // all lanes have taken theirs: its place is free
    fetch(load + kAhead * kWarps, place);
    place = place + 1 < kAhead ? place + 1 : 0;
  }
  copies_wait<0>();

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

// Loads in a warp's queue. More would cover more of memory's latency, and leave the L1 cache no room for x.
template <WeightFormat F>
inline constexpr int kLoadsAhead = F == WeightFormat::kInt4Group32 ? 3 : 2;

template <WeightFormat F, int kXTiles, int kTiles, int kWarps,
          int kAhead = kTiles == 1 && kXTiles == 1 ? 3 : kLoadsAhead<F>>
void launch_few_form(const Product& p, dim3 grid, cudaStream_t stream) {
  constexpr int kQueueBytes = kWarps * kAhead * kTiles * WeightFragment<F>::kStageBytes;
  const auto kernel = product_few_kernel<F, kXTiles, kTiles, kWarps, kAhead>;
  constexpr int kSumBytes = kWarps * 8 * kXTiles * (16 * kTiles + 1) * 4;
  if constexpr (kQueueBytes + kSumBytes > 99 * 1024) {  // what every device since sm_80 has
    if (kQueueBytes + kSumBytes > launch_traits().shared_bytes_a_block)
      return launch_few_form<F, kXTiles, kTiles, kWarps, 1>(p, grid, stream);
  }
  if constexpr (kQueueBytes + kSumBytes > 48 * 1024) {
    TS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kQueueBytes));
  }
  launch_early(kernel, {grid, 32 * kWarps, kQueueBytes}, stream, p);
}

// Everything about a launch but the rows of x follows from the matrix, and with it the order of sums.
template <WeightFormat F, int kXTiles>
void launch_few(const Product& p, cudaStream_t stream) {
  // Thin matrices: smaller tiles, and more warps that share the columns, so that enough loads are under way.
  constexpr std::int64_t kThin = 16384;  // rows of all matrices
  constexpr std::int64_t kNarrow = 132;  // blocks: one for each multiprocessor of an H200
  const bool listed = p.items != nullptr || p.ids != nullptr;
  const bool thin = !p.gated && p.weight.out * std::int64_t{p.weight.count} < kThin;
  const std::int64_t rows = p.gated ? p.weight.out / 2 : p.weight.out;
  const int block_rows = p.gated || thin ? 16 : 32;
  dim3 grid(grid_of(rows, block_rows));
  const std::int64_t blocks = listed ? kNarrow + 1 : std::int64_t{grid.x} * p.weight.count;
  // Each warp should have some loads, or starting and adding up takes longer than they do.
  const bool is_short = p.weight.padded_in / WeightFragment<F>::kCols < 32;
  if (listed) {
    grid.y = static_cast<unsigned>(p.item_limit);
  } else {
    grid.y = grid_of(p.rows, 8 * kXTiles);
    grid.z = static_cast<unsigned>(p.weight.count);
  }
  if (blocks <= kNarrow && !is_short && (thin || p.gated)) {
    if constexpr (kXTiles > 2) {
      launch_few<F, 2>(p, stream);  // sixteen warps leave neither registers nor shared memory for more
    } else if (thin) {
      launch_few_form<F, kXTiles, 1, 16>(p, grid, stream);
    } else {
      launch_few_form<F, kXTiles, 2, 16>(p, grid, stream);
    }
  } else if (thin) {
    launch_few_form<F, kXTiles, 1, 8>(p, grid, stream);
  } else if (is_short) {
    launch_few_form<F, kXTiles, 2, 2>(p, grid, stream);
  } else {
    launch_few_form<F, kXTiles, 2, 4>(p, grid, stream);
  }
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

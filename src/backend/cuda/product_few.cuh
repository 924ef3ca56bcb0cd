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

// Until the kernel before this one has ended and its results are seen; then the next one may start early.
// Nothing where kernels do not overlap.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Launches with one block's worth of overlap with the kernel before.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 grid, unsigned threads, cudaStream_t stream,
                  const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  TS_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

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

template <WeightFormat F, int kXTiles, int kTiles, int kWarps>
__global__ void __launch_bounds__(32 * kWarps, kXTiles == 1 ? 16 / kWarps : 1)
    product_few_kernel(const __grid_constant__ Product p) {
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

  const int loads = p.weight.padded_in / Fragment::kCols;
  constexpr int kSteps = Fragment::kCols / 32;
  Fragment next[kTiles];
  if (warp < loads) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) next[i].load(rows[i], std::int64_t{warp} * Fragment::kCols);
  }
  // This lane's part of its rows. A row that is not there is the last one again; its result is not kept.
  // Columns past the end meet weights of 0, and are read as the last ones.
  const bf16* x[kXTiles];
#pragma unroll
  for (int n = 0; n < kXTiles; ++n) {
    const std::int64_t row = item.first + min(n * 8 + lane / 4, item.count - 1);
    x[n] = static_cast<const bf16*>(p.x) + item.matrix * p.x_matrix_stride + x_row_of(p, row) * p.x_stride;
  }
  const int last_col = p.weight.in - 8;
  wait_for_previous();

  float sum[kTiles][kXTiles][4] = {};
  const auto load_x = [&](int load, int j, int n) {
    const int col = min(load * Fragment::kCols + 32 * j + lane % 4 * 8, last_col);
    return *reinterpret_cast<const uint4*>(x[n] + col);
  };
  uint4 ahead[kXTiles];  // of the next 32 columns
#pragma unroll
  for (int n = 0; n < kXTiles; ++n) ahead[n] = load_x(warp, 0, n);
#pragma unroll 1
  for (int load = warp; load < loads; load += kWarps) {
    Fragment now[kTiles];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) now[i] = next[i];
    if (load + kWarps < loads) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) next[i].load(rows[i], std::int64_t{load + kWarps} * Fragment::kCols);
    }
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
  const bool listed = p.items != nullptr || p.ids != nullptr;
  const std::int64_t matrices = listed ? p.item_limit : p.weight.count;
  const bool thin = !p.gated && p.weight.out * matrices < kThin;
  const std::int64_t rows = p.gated ? p.weight.out / 2 : p.weight.out;
  const int block_rows = p.gated || thin ? 16 : 32;
  dim3 grid(grid_of(rows, block_rows));
  if (listed) {
    grid.y = static_cast<unsigned>(p.item_limit);
  } else {
    grid.y = grid_of(p.rows, 8 * kXTiles);
    grid.z = static_cast<unsigned>(p.weight.count);
  }
  // Each warp should have some loads, or starting and adding up takes longer than they do.
  const bool is_short = p.weight.padded_in / WeightFragment<F>::kCols < 32;
  const auto run = [&](auto kernel, unsigned threads) {
    if (p.starts_early) {
      launch_early(kernel, grid, threads, stream, p);
    } else {
      kernel<<<grid, threads, 0, stream>>>(p);
    }
  };
  if (thin) {
    run(product_few_kernel<F, kXTiles, 1, 8>, 256);
  } else if (is_short) {
    run(product_few_kernel<F, kXTiles, 2, 2>, 64);
  } else {
    run(product_few_kernel<F, kXTiles, 2, 4>, 128);
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

// A product with many rows of x: a block of 8 warps owns 64 or 128 rows of x and 256 of W (gated: 128 of gate
// and of up). x is staged in shared memory by cp.async, three loads deep; each warp's 32 rows of W go from
// memory to registers, since no other warp needs them.
#pragma once

#include "backend/cuda/product_few.cuh"

namespace tessera::cuda {

inline constexpr int kManyWarps = 8;
inline constexpr int kManyThreads = 32 * kManyWarps;
inline constexpr int kManyStages = 3;

template <WeightFormat F, int kXRows>
__global__ void __launch_bounds__(kManyThreads, 1) product_many_kernel(const __grid_constant__ Product p) {
  using Fragment = WeightFragment<F>;
  constexpr int kCols = Fragment::kCols;
  constexpr int kPieces = kCols / 8;  // of 16 bytes, in a row of the tile
  constexpr int kXTiles = kXRows / 8;
  constexpr int kStageBytes = kXRows * kCols * 2;
  extern __shared__ __align__(
      128) unsigned char x_tiles[];  // [stages][x rows][cols], odd rows with halves swapped
  ProductItem item;
  if (!find_item(p, kXRows, item)) return;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;

  // This thread's part of staging: piece `piece` of rows row0, row0 + step, ...
  constexpr int kRowStep = kManyThreads / kPieces;
  constexpr int kCopies = kXRows / kRowStep;
  const int piece = static_cast<int>(threadIdx.x) % kPieces;
  const int row0 = static_cast<int>(threadIdx.x) / kPieces;
  const bf16* from[kCopies];
#pragma unroll
  for (int c = 0; c < kCopies; ++c) {
    const int r = row0 + c * kRowStep;
    const std::int64_t row = item.first + min(r, item.count - 1);
    from[c] = static_cast<const bf16*>(p.x) + item.matrix * p.x_matrix_stride + x_row_of(p, row) * p.x_stride;
  }
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(x_tiles));
  const auto stage_in = [&](int load) {
    const std::uint32_t base = shared + static_cast<std::uint32_t>(load % kManyStages * kStageBytes);
    const int col = load * kCols + piece * 8;
#pragma unroll
    for (int c = 0; c < kCopies; ++c) {
      const int r = row0 + c * kRowStep;
      const bool inside = r < item.count && col < p.weight.in;
      copy_16(base + static_cast<std::uint32_t>((r * kPieces + (piece ^ (r % 2 * 4))) * 16),
              from[c] + (inside ? col : 0), inside);
    }
  };

  std::int64_t first_row[2];
  WeightRows rows[2];
  const std::int64_t last_tile = padded(p.weight.out, 16) - 16;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    first_row[i] = p.gated ? (std::int64_t{blockIdx.x} * kManyWarps + warp) * 16 + i * (p.weight.out / 2)
                           : ((std::int64_t{blockIdx.x} * kManyWarps + warp) * 2 + i) * 16;
    rows[i] = Fragment::rows(p.weight, item.matrix, min(first_row[i], last_tile), lane);
  }

  float sum[2][kXTiles][4] = {};
  const int loads = p.weight.padded_in / kCols;
  for (int s = 0; s < kManyStages - 1; ++s) {
    if (s < loads) stage_in(s);
    copies_commit();
  }
  Fragment next[2];
  next[0].load(rows[0], 0);
  next[1].load(rows[1], 0);
  for (int load = 0; load < loads; ++load) {
    Fragment now[2] = {next[0], next[1]};
    if (load + 1 < loads) {
      next[0].load(rows[0], std::int64_t{load + 1} * kCols);
      next[1].load(rows[1], std::int64_t{load + 1} * kCols);
    }
    copies_wait<kManyStages - 2>();
    __syncthreads();  // this load has arrived for all, and all are done with the one that is overwritten next
    if (load + kManyStages - 1 < loads) stage_in(load + kManyStages - 1);
    copies_commit();
    const unsigned char* tile = x_tiles + load % kManyStages * kStageBytes;
#pragma unroll
    for (int j = 0; j < kCols / 32; ++j) {
      std::uint32_t a[2][2][4];
      now[0].unpack(j, a[0]);
      now[1].unpack(j, a[1]);
#pragma unroll
      for (int n = 0; n < kXTiles; ++n) {
        const int r = n * 8 + g;
        const uint4 x =
            *reinterpret_cast<const uint4*>(tile + (r * kPieces + ((4 * j + t) ^ (r % 2 * 4))) * 16);
        multiply_32<Fragment>(sum[0][n], a[0], x, now[0].low_scale(j), now[0].high_scale(j));
        multiply_32<Fragment>(sum[1][n], a[1], x, now[1].low_scale(j), now[1].high_scale(j));
      }
    }
  }
  copies_wait<0>();

  const std::int64_t out = p.gated ? p.weight.out / 2 : p.weight.out;
#pragma unroll
  for (int n = 0; n < kXTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int x_row = n * 8 + 2 * t + c % 2;
      if (x_row >= item.count) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::int64_t col = first_row[i] + g + c / 2 * 8;
        if (p.gated) {
          if (i == 0 && col < out) {
            store_y(p, item, item.first + x_row, col, silu(sum[0][n][c]) * sum[1][n][c]);
          }
        } else if (col < out) {
          store_y(p, item, item.first + x_row, col, sum[i][n][c]);
        }
      }
    }
  }
}

template <WeightFormat F, int kXRows>
void launch_many(const Product& p, cudaStream_t stream) {
  constexpr int kShared = kManyStages * kXRows * WeightFragment<F>::kCols * 2;
  static_assert(kShared <= 48 * 1024, "more needs an attribute");
  const std::int64_t rows = p.gated ? p.weight.out / 2 : p.weight.out;
  dim3 grid(grid_of(rows, p.gated ? 16 * kManyWarps : 32 * kManyWarps));
  if (p.items != nullptr) {
    grid.y = static_cast<unsigned>(p.item_limit);
  } else {
    grid.y = grid_of(p.rows, kXRows);
    grid.z = static_cast<unsigned>(p.weight.count);
  }
  product_many_kernel<F, kXRows><<<grid, kManyThreads, kShared, stream>>>(p);
  TS_CUDA(cudaGetLastError());
}

template <WeightFormat F>
void launch_many_of(const Product& p, cudaStream_t stream) {
  // Twice the rows of x halve the reads of W; scaled formats have no registers for them.
  if constexpr (!WeightFragment<F>::kScaled) {
    if (p.items == nullptr && p.rows >= 1024) return launch_many<F, 2 * kManyRows>(p, stream);
  }
  launch_many<F, kManyRows>(p, stream);
}

}  // namespace tessera::cuda

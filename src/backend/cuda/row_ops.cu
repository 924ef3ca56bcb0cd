#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/overlap.cuh"
#include "backend/cuda/row_ops.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void embed_kernel(const std::int32_t* ids, TiledWeight table, std::int64_t first, Rows<T> out,
                             std::int64_t cols) {
  wait_for_previous();
  const std::int64_t t = blockIdx.y;
  const std::int64_t col = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= cols) return;
  const std::int64_t row = ids[t] - first;
  const bool here = row >= 0 && row < table.out;
  out.row(t)[col] = narrow<T>(here ? weight_at(table, 0, row, col) : 0.0F);
}

// Values that a thread keeps between the pass that sums squares and the one that scales: rows of up to
// 256 x 32 values are read once.
constexpr int kKept = 32;

template <class T, bool kAdd>
__global__ void rms_norm_kernel(Rows<T> residual, Rows<T> delta, const float* weight, float eps, Rows<T> out,
                                std::int64_t cols) {
  __shared__ float partial[kThreads / 32];
  T* x = residual.row(blockIdx.x);
  T* y = out.row(blockIdx.x);
  const T* d = kAdd ? delta.row(blockIdx.x) : nullptr;
  float kept[kKept];
  float sum = 0;
  wait_for_previous();
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const std::int64_t col = std::int64_t{i} * kThreads + threadIdx.x;
    if (col >= cols) break;
    float value = widen(x[col]);
    if constexpr (kAdd) {
      x[col] = narrow<T>(value + widen(d[col]));
      value = widen(x[col]);  // the norm is of what was stored
    }
    kept[i] = value;
    sum += value * value;
  }
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < kThreads / 32; ++w) total += partial[w];
  const float factor = 1.0F / sqrtf(total / static_cast<float>(cols) + eps);
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const std::int64_t col = std::int64_t{i} * kThreads + threadIdx.x;
    if (col >= cols) break;
    y[col] = narrow<T>(kept[i] * factor * weight[col]);
  }
}

// The same for bf16 rows whose eights are aligned: a thread has one eight, so all loads are under way at
// once.
template <bool kAdd>
__global__ void rms_norm_eights_kernel(Rows<bf16> residual, Rows<bf16> delta, const float* weight, float eps,
                                       Rows<bf16> out, int cols) {
  __shared__ float partial[32];
  const int col = static_cast<int>(threadIdx.x) * 8;
  const bool inside = col < cols;
  float value[8] = {};
  float4 w[2] = {};
  if (inside) {
    w[0] = __ldg(reinterpret_cast<const float4*>(weight + col));
    w[1] = __ldg(reinterpret_cast<const float4*>(weight + col + 4));
  }
  wait_for_previous();
  if (inside) {
    auto* at = reinterpret_cast<uint4*>(residual.row(blockIdx.x) + col);
    uint4 packed = *at;
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&packed);
    if constexpr (kAdd) {
      const uint4 added = *reinterpret_cast<const uint4*>(delta.row(blockIdx.x) + col);
      const auto* more = reinterpret_cast<const __nv_bfloat162*>(&added);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 a = __bfloat1622float2(pairs[i]);
        const float2 b = __bfloat1622float2(more[i]);
        pairs[i] = __floats2bfloat162_rn(a.x + b.x, a.y + b.y);
      }
      *at = packed;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __bfloat1622float2(pairs[i]);  // the norm is of what was stored
      value[2 * i] = pair.x;
      value[2 * i + 1] = pair.y;
    }
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += value[i] * value[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) total += partial[i];
  const float factor = 1.0F / sqrtf(total / static_cast<float>(cols) + eps);
  if (!inside) return;
  uint4 packed;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&packed);
  pairs[0] = __floats2bfloat162_rn(value[0] * factor * w[0].x, value[1] * factor * w[0].y);
  pairs[1] = __floats2bfloat162_rn(value[2] * factor * w[0].z, value[3] * factor * w[0].w);
  pairs[2] = __floats2bfloat162_rn(value[4] * factor * w[1].x, value[5] * factor * w[1].y);
  pairs[3] = __floats2bfloat162_rn(value[6] * factor * w[1].z, value[7] * factor * w[1].w);
  *reinterpret_cast<uint4*>(out.row(blockIdx.x) + col) = packed;
}

template <class T>
__global__ void add_kernel(Rows<T> x, Rows<T> y, Rows<T> out, std::int64_t cols) {
  wait_for_previous();
  const std::int64_t col = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = blockIdx.y;
  if (col < cols) out.row(row)[col] = narrow<T>(widen(x.row(row)[col]) + widen(y.row(row)[col]));
}

template <class T>
__global__ void silu_mul_kernel(Rows<T> gate_up, Rows<T> out, std::int64_t cols) {
  wait_for_previous();
  const std::int64_t col = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = blockIdx.y;
  if (col >= cols) return;
  const float gate = widen(gate_up.row(row)[col]);
  out.row(row)[col] = narrow<T>(silu(gate) * widen(gate_up.row(row)[col + cols]));
}

// Unit: the widest that divides every row's start and length.
template <class Unit>
__global__ void copy_kernel(Rows<const Unit> x, const std::int32_t* rows, std::int64_t x_rows, Rows<Unit> out,
                            std::int64_t count, std::int64_t cols) {
  wait_for_previous();
  const std::int64_t col = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= cols) return;
  for (std::int64_t row = blockIdx.y; row < count; row += gridDim.y) {
    const std::int64_t from = rows ? rows[row] : row;
    if (from >= 0 && from < x_rows) out.row(row)[col] = x.row(from)[col];
  }
}

template <class T>
__global__ void rope_kernel(Rows<T> x, std::int64_t heads, std::int64_t head_stride,
                            const std::int32_t* positions, const float* cos, const float* sin,
                            std::int64_t table_positions, std::int64_t pairs, bool interleaved) {
  wait_for_previous();
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= heads * pairs) return;
  const std::int64_t position = positions[blockIdx.y];
  if (position < 0 || position >= table_positions) return;  // a padded row
  T* head = x.row(blockIdx.y) + i / pairs * head_stride;
  const std::int64_t pair = i % pairs;
  T* first = interleaved ? head + 2 * pair : head + pair;
  T* second = interleaved ? first + 1 : first + pairs;
  const float c = cos[position * pairs + pair];
  const float s = sin[position * pairs + pair];
  rotate_pair(*first, *second, c, s, *first, *second);
}

constexpr std::int64_t kMostGridRows = 65535;

template <class F>
void in_row_batches(std::int64_t rows, const F& body) {
  for (std::int64_t first = 0; first < rows; first += kMostGridRows) {
    body(first, std::min(kMostGridRows, rows - first));
  }
}

}  // namespace

void launch_embed(const std::int32_t* ids, const TiledWeight& table, std::int64_t first, const Tensor& out,
                  cudaStream_t stream) {
  with_activation(out.dtype, [&]<class T>(T) {
    in_row_batches(out.rows, [&](std::int64_t row, std::int64_t count) {
      const dim3 grid(grid_of(out.cols, kThreads), static_cast<unsigned>(count));
      launch_early(embed_kernel<T>, {grid, kThreads}, stream, ids + row, table, first,
                   rows_of<T>(out.row_range(row, count)), out.cols);
    });
  });
}

void launch_rms_norm(const Tensor& residual, const Tensor& delta, const float* weight, float eps,
                     const Tensor& out, cudaStream_t stream) {
  if (out.rows == 0) return;
  TS_CHECK(out.cols <= std::int64_t{kKept} * kThreads, out.cols);
  const auto in_eights = [&](const Tensor& t) {
    return t.dtype == DType::kBF16 && reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 && t.stride % 8 == 0;
  };
  if (out.cols % 8 == 0 && in_eights(residual) && in_eights(out) &&
      (delta.data == nullptr || in_eights(delta))) {
    const auto threads = static_cast<unsigned>(padded(out.cols / 8, 32));
    const auto cols = static_cast<int>(out.cols);
    const auto rows = static_cast<unsigned>(out.rows);
    if (delta.data != nullptr) {
      launch_early(rms_norm_eights_kernel<true>, {rows, threads}, stream, rows_of<bf16>(residual),
                   rows_of<bf16>(delta), weight, eps, rows_of<bf16>(out), cols);
    } else {
      launch_early(rms_norm_eights_kernel<false>, {rows, threads}, stream, rows_of<bf16>(residual), {},
                   weight, eps, rows_of<bf16>(out), cols);
    }
    return;
  }
  with_activation(out.dtype, [&]<class T>(T) {
    const auto grid = static_cast<unsigned>(out.rows);
    if (delta.data != nullptr) {
      launch_early(rms_norm_kernel<T, true>, {grid, kThreads}, stream, rows_of<T>(residual),
                   rows_of<T>(delta), weight, eps, rows_of<T>(out), out.cols);
    } else {
      launch_early(rms_norm_kernel<T, false>, {grid, kThreads}, stream, rows_of<T>(residual), {}, weight, eps,
                   rows_of<T>(out), out.cols);
    }
  });
}

void launch_add(const Tensor& x, const Tensor& y, const Tensor& out, cudaStream_t stream) {
  with_activation(out.dtype, [&]<class T>(T) {
    in_row_batches(out.rows, [&](std::int64_t row, std::int64_t count) {
      const dim3 grid(grid_of(out.cols, kThreads), static_cast<unsigned>(count));
      launch_early(add_kernel<T>, {grid, kThreads}, stream, rows_of<T>(x.row_range(row, count)),
                   rows_of<T>(y.row_range(row, count)), rows_of<T>(out.row_range(row, count)), out.cols);
    });
  });
}

void launch_silu_mul(const Tensor& gate_up, const Tensor& out, cudaStream_t stream) {
  with_activation(out.dtype, [&]<class T>(T) {
    in_row_batches(out.rows, [&](std::int64_t row, std::int64_t count) {
      const dim3 grid(grid_of(out.cols, kThreads), static_cast<unsigned>(count));
      launch_early(silu_mul_kernel<T>, {grid, kThreads}, stream, rows_of<T>(gate_up.row_range(row, count)),
                   rows_of<T>(out.row_range(row, count)), out.cols);
    });
  });
}

void launch_copy_rows(const Tensor& x, const std::int32_t* rows, const Tensor& out, cudaStream_t stream) {
  if (out.rows == 0 || out.cols == 0) return;
  const std::int64_t size = bytes_of(out.dtype);
  const auto fits = [&](std::int64_t unit) {
    return (reinterpret_cast<std::uintptr_t>(x.data) | reinterpret_cast<std::uintptr_t>(out.data) |
            static_cast<std::uintptr_t>(out.cols * size) | static_cast<std::uintptr_t>(x.stride * size) |
            static_cast<std::uintptr_t>(out.stride * size)) %
               static_cast<std::uintptr_t>(unit) ==
           0;
  };
  const auto run = [&]<class Unit>(Unit) {
    const auto units = static_cast<std::int64_t>(sizeof(Unit));
    const std::int64_t cols = out.cols * size / units;
    const dim3 grid(grid_of(cols, kThreads), static_cast<unsigned>(std::min(out.rows, kMostGridRows)));
    launch_early(copy_kernel<Unit>, {grid, kThreads}, stream,
                 {static_cast<const Unit*>(x.data), x.stride * size / units}, rows, x.rows,
                 {static_cast<Unit*>(out.data), out.stride * size / units}, out.rows, cols);
  };
  if (fits(16)) {
    run(uint4{});
  } else if (fits(4)) {
    run(unsigned{});
  } else if (fits(2)) {
    run(std::uint16_t{});
  } else {
    run(std::uint8_t{});
  }
}

void launch_rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride, const std::int32_t* positions,
                 const RopeTable& table, RopePairs pairs, cudaStream_t stream) {
  if (heads == 0 || table.pairs == 0) return;
  with_activation(x.dtype, [&]<class T>(T) {
    in_row_batches(x.rows, [&](std::int64_t row, std::int64_t count) {
      const dim3 grid(grid_of(heads * table.pairs, kThreads), static_cast<unsigned>(count));
      launch_early(rope_kernel<T>, {grid, kThreads}, stream, rows_of<T>(x.row_range(row, count)), heads,
                   head_stride, positions + row, table.cos, table.sin, table.positions, table.pairs,
                   pairs == RopePairs::kInterleaved);
    });
  });
}

}  // namespace tessera::cuda

#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/order_rows.h"
#include "backend/cuda/weight_fragment.cuh"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kF16Exponent = 14;  // of values below 2^15
constexpr int kPieces = 4;        // of 16 bytes, that a thread has under way

// Lane t of four neighbours holds words 4 t .. 4 t + 3 of sixteen, and gets words t, 4 + t, 8 + t, 12 + t.
__device__ __forceinline__ uint4 transposed(const uint4& v) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  const auto swap = [](std::uint32_t& keep_low, std::uint32_t& keep_high, bool high, int step) {
    const std::uint32_t got = __shfl_xor_sync(0xffffffffU, high ? keep_low : keep_high, step);
    (high ? keep_low : keep_high) = got;
  };
  uint4 w = v;
  swap(w.x, w.y, t % 2 == 1, 1);
  swap(w.z, w.w, t % 2 == 1, 1);
  swap(w.x, w.z, t >= 2, 2);
  swap(w.y, w.w, t >= 2, 2);
  return w;
}

// The largest size of a block's finite values, as bits of bf16.
__device__ __forceinline__ std::uint32_t block_largest(std::uint32_t mine) {
  __shared__ std::uint32_t of_warp[kThreads / 32];
  mine = __reduce_max_sync(0xffffffffU, mine);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  return __reduce_max_sync(0xffffffffU, of_warp[threadIdx.x % (kThreads / 32)]);
}

__device__ __forceinline__ std::uint32_t finite_size(std::uint32_t bits) {  // of a bf16 in the low half
  return (bits & 0x7fffU) < 0x7f80U ? bits & 0x7fffU : 0;
}

__device__ __forceinline__ std::uint32_t to_f16(std::uint32_t pair, float factor) {
  const __half2 v =
      __floats2half2_rn(__uint_as_float(pair << 16) * factor, __uint_as_float(pair & 0xffff0000U) * factor);
  return reinterpret_cast<const std::uint32_t&>(v);
}

// One block a row.
template <bool kScaled>
__global__ void __launch_bounds__(kThreads) order_rows_kernel(const RowOrder o) {
  const std::int64_t row = blockIdx.x;
  if (o.count != nullptr && row >= *o.count) return;
  const auto* from = static_cast<const bf16*>(o.x) + (o.x_rows ? o.x_rows[row] : row) * o.x_stride;
  auto* to = static_cast<bf16*>(o.y) + row * o.y_stride;
  const std::int64_t end = o.wgmma_order ? padded(o.cols, 32) : o.cols;
  const auto read = [&](std::int64_t col) {
    return col < o.cols ? *reinterpret_cast<const uint4*>(from + col) : uint4{};
  };
  constexpr std::int64_t kStep = kThreads * kPieces * 8;
  const auto col_of = [](std::int64_t first, int i) {
    return first + (i * kThreads + static_cast<int>(threadIdx.x)) * 8;
  };
  float factor = 1;
  if constexpr (kScaled) {
    std::uint32_t largest = 0;
    for (std::int64_t first = 0; first < end; first += kStep) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const uint4 v = read(col_of(first, i));
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          largest = max(largest, max(finite_size(word_of(v, w)), finite_size(word_of(v, w) >> 16)));
        }
      }
    }
    const int exponent = static_cast<int>(block_largest(largest) >> 7) - 127;
    const int up = min(max(kF16Exponent - exponent, -126), 126);
    factor = power_of_two(up);
    if (threadIdx.x == 0) o.y_scale[row] = power_of_two(-up);
  }
  for (std::int64_t first = 0; first < end; first += kStep) {
    uint4 v[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) v[i] = read(col_of(first, i));
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const std::int64_t col = col_of(first, i);
      if constexpr (kScaled) {
        v[i] = {to_f16(v[i].x, factor), to_f16(v[i].y, factor), to_f16(v[i].z, factor),
                to_f16(v[i].w, factor)};
      }
      if (o.wgmma_order) v[i] = transposed(v[i]);
      if (col < end) *reinterpret_cast<uint4*>(to + col) = v[i];
    }
  }
}

}  // namespace

void launch_order_rows(const RowOrder& o, cudaStream_t stream) {
  TS_CHECK(o.cols % 8 == 0 && o.x_stride % 8 == 0 && o.y_stride % (o.wgmma_order ? 32 : 8) == 0, o.cols,
           o.x_stride, o.y_stride);
  if (o.rows == 0) return;
  const auto kernel = o.y_scale != nullptr ? order_rows_kernel<true> : order_rows_kernel<false>;
  kernel<<<static_cast<unsigned>(o.rows), kThreads, 0, stream>>>(o);
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda

// Activations on the device: bf16 in use, f32 where results are compared with references.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda_layout/weight_layout.h"
#include "tensor/tensor.h"

namespace tessera::cuda {

using bf16 = __nv_bfloat16;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(bf16 x) { return __bfloat162float(x); }
template <class T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 narrow<bf16>(float x) {
  return __float2bfloat16_rn(x);
}

__device__ __forceinline__ float widen_fp8(std::uint8_t bits) {
  const __half_raw half = __nv_cvt_fp8_to_halfraw(bits, __NV_E4M3);
  return __half2float(half);
}

__device__ __forceinline__ float silu(float x) { return x / (1.0F + expf(-x)); }

// A pair of values turned by an angle with cosine c and sine s; the results may lie where the values do.
template <class T>
__device__ __forceinline__ void rotate_pair(const T& x, const T& y, float c, float s, T& to_x, T& to_y) {
  const float a = widen(x);
  const float b = widen(y);
  to_x = narrow<T>(a * c - b * s);
  to_y = narrow<T>(a * s + b * c);
}

// Rows of a tensor as a kernel sees them.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;  // elements
  __device__ T* row(std::int64_t r) const { return data + r * stride; }
};
template <class T>
Rows<T> rows_of(const Tensor& tensor) {
  return {static_cast<T*>(tensor.data), tensor.stride};
}

// Element (row, col) of matrix `index`, whatever the format: for rows of the embedding and for products that
// need no speed.
__device__ inline float weight_at(const TiledWeight& w, std::int64_t index, std::int64_t row,
                                  std::int64_t col) {
  const auto* data = static_cast<const unsigned char*>(w.data) + index * w.data_stride;
  const auto* scale = static_cast<const unsigned char*>(w.scale) + index * w.scale_stride;
  switch (w.format) {
    case WeightFormat::kF32:
      return reinterpret_cast<const float*>(data)[row * w.in + col];
    case WeightFormat::kBF16:
      return widen(*reinterpret_cast<const bf16*>(data + bf16_offset(row, col, w.padded_in)));
    case WeightFormat::kFp8Block128:
      return widen_fp8(data[fp8_offset(row, col, w.padded_in)]) *
             reinterpret_cast<const float*>(scale)[fp8_scale_index(row, col, w.padded_in)];
    case WeightFormat::kInt4Group32: {
      const auto word =
          *reinterpret_cast<const std::uint32_t*>(data + int4_word_offset(row, col, w.padded_in));
      const int code = static_cast<int>((word >> int4_shift(col)) & 15U) - 8;
      return static_cast<float>(code) / kInt4ScaleUp *
             widen(reinterpret_cast<const bf16*>(scale)[int4_scale_index(row, col, w.padded_in)]);
    }
  }
  return 0;
}

template <class F>
void with_activation(DType dtype, const F& body) {
  if (dtype == DType::kBF16) {
    body(bf16{});
  } else {
    TS_CHECK(dtype == DType::kF32, name_of(dtype));
    body(float{});
  }
}

__device__ __forceinline__ float power_of_two(int exponent) {  // -126 to 127
  return __int_as_float((exponent + 127) << 23);
}

// The sum over a warp, the same in every lane.
__device__ __forceinline__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, step));
  return x;
}

inline unsigned grid_of(std::int64_t items, std::int64_t a_block) {
  return static_cast<unsigned>((items + a_block - 1) / a_block);
}

}  // namespace tessera::cuda

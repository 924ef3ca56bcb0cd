// Numbers of MLA decode on Hopper: packing, exponentials, e4m3, and which rows a sequence shows.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/mla_kernel.h"
#include "backend/cuda/wgmma_sm90.cuh"

namespace tessera::cuda::sm90 {

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 2^exponent.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<std::uint32_t>(127 + exponent) << 23);
}

// Two values in one register, `low` first.
__device__ __forceinline__ std::uint32_t pack(Bf16, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
__device__ __forceinline__ std::uint32_t pack(F16, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
// In the low 16 bits.
__device__ __forceinline__ std::uint32_t pack(E4m3, float low, float high) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}

// Two e4m3 values as f16, exactly, in one instruction: the low 16 bits of `four`, or the high ones.
__device__ __forceinline__ std::uint32_t low_halves_of_e4m3(std::uint32_t four) {
  std::uint32_t halves;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, low;\n}"
      : "=r"(halves)
      : "r"(four));
  return halves;
}
__device__ __forceinline__ std::uint32_t high_halves_of_e4m3(std::uint32_t four) {
  std::uint32_t halves;
  asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.rn.f16x2.e4m3x2 %0, high;\n}"
      : "=r"(halves)
      : "r"(four));
  return halves;
}
__device__ __forceinline__ std::uint32_t halves_of_bf16(std::uint32_t pair) {
  return pack(F16{}, __uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000U));
}
__device__ __forceinline__ std::uint32_t times(std::uint32_t halves, std::uint32_t factors) {
  std::uint32_t product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(halves), "r"(factors));
  return product;
}

// d += the sums of the eight columns of B, which are 32 bytes long; b0 and b1 hold a lane's part of B as
// mma.sync wants it. All rows of D are equal: d[0] and d[1] are columns 2 (l % 4), + 1.
__device__ __forceinline__ void add_columns(Bf16, float (&d)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %6}, "
      "{%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(0x3F803F80), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void add_columns(F16, float (&d)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %6}, {%0, "
      "%1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(0x3C003C00), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void add_columns(E4m3, float (&d)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %6}, "
      "{%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(0x38383838), "r"(b0), "r"(b1));
}

// KV rows that any query token of the sequence sees.
__device__ inline std::int32_t most_rows(const MlaArgs& args, std::int32_t seq) {
  std::int32_t most = 0;
  for (int token = 0; token < args.q_tokens; ++token) most = max(most, visible_rows(args, seq, token));
  return most;
}
// KV rows that every query token of the sequence sees.
__device__ inline std::int32_t least_rows(const MlaArgs& args, std::int32_t seq) {
  std::int32_t least = visible_rows(args, seq, 0);
  for (int token = 1; token < args.q_tokens; ++token) least = min(least, visible_rows(args, seq, token));
  return least;
}

}  // namespace tessera::cuda::sm90

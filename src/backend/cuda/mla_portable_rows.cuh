// Row formats of the portable kernel (mla_decode_portable.cu), and the instructions that it is made of:
// conversions, mma.sync, matrix loads.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "backend/cuda/async_copy.cuh"
#include "backend/cuda/mla_kernel.h"

namespace tessera::cuda::portable {

struct Bf16 {};
struct F16 {};

struct RowsBf16 {
  using Operand = Bf16;
  static constexpr bool kFp8 = false;
  static constexpr bool kGrouped = false;
  static constexpr int kRowBytes = 1152;
  static constexpr int kStride = kRowBytes + 16;  // eight rows at one column then touch all banks once
  static constexpr int kStages32 = 2;             // tiles of 32 tokens in shared memory
  static constexpr bool kLongTiles = false;       // two tiles of 64 tokens instead, where query rows are few
};
struct RowsFp8 {
  using Operand = F16;
  static constexpr bool kFp8 = true;
  static constexpr bool kGrouped = false;
  static constexpr int kRowBytes = 576;
  static constexpr int kStride = kRowBytes + 16;
  static constexpr int kStages32 = 4;
  static constexpr bool kLongTiles = true;  // as many bytes as a bf16 tile, so barriers cost no more a byte
};
struct RowsFp8Grouped {
  using Operand = Bf16;
  static constexpr bool kFp8 = true;
  static constexpr bool kGrouped = true;
  static constexpr int kRowBytes = 656;
  static constexpr int kStride = kRowBytes;  // 16 bytes past a multiple of 128 already
  static constexpr int kStages32 = 3;
  static constexpr bool kLongTiles = false;  // two of 41,984 bytes would not fit beside the scores
};

__device__ __forceinline__ std::uint32_t pack(Bf16, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
__device__ __forceinline__ std::uint32_t pack(F16, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two e4m3 values (the low byte first) as two f16, exactly.
__device__ __forceinline__ std::uint32_t halves_of_e4m3(std::uint32_t pair) {
#if __CUDA_ARCH__ >= 890
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<std::uint16_t>(pair)));
  return halves;
#else
  // Exponent and mantissa one place down from the sign give the value times 2^-8; e4m3's NaN becomes 480.
  const std::uint32_t wide = __byte_perm(pair, 0, 0x1404);
  const std::uint32_t bits = (wide & 0x80008000U) | ((wide & 0x7F007F00U) >> 1);
  const __half2 scaled =
      __hmul2(reinterpret_cast<const __half2&>(bits), __half2half2(__ushort_as_half(0x5C00)));
  return reinterpret_cast<const std::uint32_t&>(scaled);
#endif
}
__device__ __forceinline__ std::uint32_t operands_of_e4m3(F16, std::uint32_t pair) {
  return halves_of_e4m3(pair);
}
__device__ __forceinline__ std::uint32_t operands_of_e4m3(Bf16, std::uint32_t pair) {
  const std::uint32_t halves = halves_of_e4m3(pair);
  const float2 values = __half22float2(reinterpret_cast<const __half2&>(halves));
  return pack(Bf16{}, values.x, values.y);
}

__device__ __forceinline__ void multiply(Bf16, float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply(F16, float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
      "%1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void load_matrices(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
// copy_16() that asks for the whole line: the next parts of a row follow.
__device__ __forceinline__ void copy_row_part(std::uint32_t to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(real ? 16 : 0)
               : "memory");
}

}  // namespace tessera::cuda::portable

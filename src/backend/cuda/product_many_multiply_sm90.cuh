// The many-row product on Hopper: sums of a tile.
#pragma once

#include <cuda_fp16.h>

#include "backend/cuda/product_many_numbers_sm90.cuh"
#include "backend/cuda/weight_fragment.cuh"
#include "backend/cuda/wgmma_sm90.cuh"

namespace tessera::cuda {

// Each warp says for itself that it is done with a stage.
__device__ __forceinline__ void release(std::uint32_t empty) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(empty);
}

// What wgmma writes while other instructions run is not read before this.
template <int kCount>
__device__ __forceinline__ void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

template <WeightFormat F>
struct ManyOperand;  // W as an operand
template <>
struct ManyOperand<WeightFormat::kBF16> {
  __device__ explicit ManyOperand(const TiledWeight&) {}
  __device__ float down() const { return 1; }
};

// sum = W[64 rows of warpgroup `group`] x[kN rows]^T, both from shared memory.
template <int kN>
__device__ __forceinline__ void multiply_tile(float (&sum)[kN / 2], const ManyRing<WeightFormat::kBF16>& ring,
                                              ManyPlace<WeightFormat::kBF16>& at, int loads, int group,
                                              ManyOperand<WeightFormat::kBF16>&) {
  using S = ManyShape<WeightFormat::kBF16>;
  constexpr int kPiece = 128;  // 8 rows x 16 bytes
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) sum[i] = 0;
  int before = 0;
#pragma unroll 1
  for (int load = 0; load < loads; ++load) {
    barrier_wait(ring.full(at.stage()), at.phase());
    const std::uint64_t w = wgmma_operand_pieces(
        ring.weights(at.stage()) + static_cast<std::uint32_t>(group * 8 * S::kWeightBytes), kPiece,
        S::kWeightBytes);
    const std::uint64_t x = wgmma_operand(ring.x(at.stage()), 8 * 128, 16);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < S::kCols / 16; ++k) {
      wgmma_ss<Bf16, WgmmaB::kAlongK>(sum, wgmma_advance(w, 2 * k * kPiece), wgmma_advance(x, 32 * k), 1);
    }
    wgmma_commit();
    if (load > 0) {
      wgmma_wait<1>();
      release(ring.empty(before));
    }
    before = at.stage();
    at.advance();
  }
  wgmma_wait<0>();
  pin(sum);
  release(ring.empty(before));
}

__device__ __forceinline__ void read_fragment(WeightFragment<WeightFormat::kFp8Block128>& f,
                                              std::uint32_t weights, std::uint32_t scales, int lane) {
  using S = ManyShape<WeightFormat::kFp8Block128>;
  const std::uint32_t low = weights + static_cast<std::uint32_t>(lane * 16);
  const std::uint32_t scale = scales + static_cast<std::uint32_t>(lane / 4 * 4);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    f.low[j] = load_shared_4(low + static_cast<std::uint32_t>(512 * j));
    f.high[j] = load_shared_4(low + static_cast<std::uint32_t>(S::kWeightBytes + 512 * j));
  }
  f.scale_low = load_shared(scale);
  f.scale_high = load_shared(scale + S::kScaleBytes);
}
__device__ __forceinline__ void read_fragment(WeightFragment<WeightFormat::kInt4Group32>& f,
                                              std::uint32_t weights, std::uint32_t scales, int lane) {
  using S = ManyShape<WeightFormat::kInt4Group32>;
  const std::uint32_t low = weights + static_cast<std::uint32_t>(lane * 16);
  const std::uint32_t scale = scales + static_cast<std::uint32_t>(lane / 4 * 8);
  f.low = load_shared_4(low);
  f.high = load_shared_4(low + S::kWeightBytes);
  f.scales_low = load_shared_pair(scale);
  f.scales_high = load_shared_pair(scale + S::kScaleBytes);
}

// The same weights as operands: fp8 as they are, in bf16; int4 with their scales, in f16. A code has 3 bits
// beside its sign (or is -8) and a scale 8, so a product fits the 11 bits of f16; it is exact where the scale
// is at least 2^-28 of the largest of the stack, and off by 2^-36 of the largest weight at most where it is
// smaller.
template <>
struct ManyOperand<WeightFormat::kFp8Block128> {
  using Type = Bf16;
  WeightFragment<WeightFormat::kFp8Block128> w;

  __device__ explicit ManyOperand(const TiledWeight&) {}
  __device__ float down() const { return 1; }
  __device__ void unpack(int j, std::uint32_t (&a)[2][4]) const { w.unpack(j, a); }
};

template <>
struct ManyOperand<WeightFormat::kInt4Group32> {
  using Type = F16;
  WeightFragment<WeightFormat::kInt4Group32> w;
  float up;  // scales times this are below 2^12

  __device__ explicit ManyOperand(const TiledWeight& weight) {
    const int exponent = static_cast<int>(*weight.largest_scale >> 7) - 127;
    up = power_of_two(min(max(11 - exponent, -100), 100));
  }
  __device__ float down() const { return 1.0F / kInt4ScaleUp / up; }
  // Pair i of a word as codes - 8: a nibble behind the bits of 1024 (or, 4 bits higher, of 64 in sixteenths).
  static __device__ __half2 codes(std::uint32_t word, int i) {
    const std::uint32_t bytes = i < 2 ? word : word >> 8;
    const std::uint32_t bits = (bytes & (i % 2 == 0 ? 0x000f000fU : 0x00f000f0U)) | 0x64006400U;
    const __half2 value = reinterpret_cast<const __half2&>(bits);
    return i % 2 == 0 ? __hsub2(value, __float2half2_rn(1032))
                      : __hfma2(value, __float2half2_rn(0.0625F), __float2half2_rn(-72));
  }
  __device__ void unpack(int j, std::uint32_t (&a)[2][4]) const {
    const __half2 low = __float2half2_rn(w.low_scale(j) * up);
    const __half2 high = __float2half2_rn(w.high_scale(j) * up);
    const std::uint32_t l = word_of(w.low, j);
    const std::uint32_t h = word_of(w.high, j);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __half2 from_l = __hmul2(codes(l, i), low);
      const __half2 from_h = __hmul2(codes(h, i), high);
      a[i / 2][i % 2 * 2] = reinterpret_cast<const std::uint32_t&>(from_l);
      a[i / 2][i % 2 * 2 + 1] = reinterpret_cast<const std::uint32_t&>(from_h);
    }
  }
};

// The same with W unpacked to registers. fp8: codes are multiplied exactly, and their scale meets the sum
// over its 128 columns, in f32.
template <int kN, WeightFormat F>
__device__ __forceinline__ void multiply_tile(float (&sum)[kN / 2], const ManyRing<F>& ring, ManyPlace<F>& at,
                                              int loads, int, ManyOperand<F>& operand) {
  using S = ManyShape<F>;
  using Type = typename ManyOperand<F>::Type;
  constexpr bool kScalesAfter = F == WeightFormat::kFp8Block128;
  constexpr int kSteps = S::kCols / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pair = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) sum[i] = 0;
  float part[kScalesAfter ? kN / 2 : 4];
  const auto multiply = [&](auto& to, const std::uint32_t(&a)[2][4], std::uint64_t x, int keep) {
    wgmma_fence();
    wgmma_rs<Type, WgmmaB::kAlongK>(to, a[0], x, keep);
    wgmma_rs<Type, WgmmaB::kAlongK>(to, a[1], wgmma_advance(x, 32), 1);
    wgmma_commit();
  };
#pragma unroll 1
  for (int load = 0; load < loads; ++load) {
    barrier_wait(ring.full(at.stage()), at.phase());
    const std::uint64_t x = wgmma_operand(ring.x(at.stage()), 8 * 128, 16);
    read_fragment(operand.w,
                  ring.weights(at.stage()) + static_cast<std::uint32_t>(2 * pair * S::kWeightBytes),
                  ring.scales(at.stage()) + static_cast<std::uint32_t>(2 * pair * S::kScaleBytes), lane);
    std::uint32_t a[2][2][4];  // of this step and the next
    operand.unpack(0, a[0]);
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      const std::uint64_t columns = wgmma_advance(x, j / 2 * S::kHalfBytes + j % 2 * 64);
      if constexpr (kScalesAfter) {
        multiply(part, a[j % 2], columns, j > 0);
      } else {
        multiply(sum, a[j % 2], columns, 1);
      }
      if (j + 1 < kSteps) {
        wgmma_wait<1>();  // the step before has read its a
        operand.unpack(j + 1, a[(j + 1) % 2]);
      }
    }
    wgmma_wait<0>();
    release(ring.empty(at.stage()));
    if constexpr (kScalesAfter) {
      pin(part);
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) {
        sum[i] += (i % 4 < 2 ? operand.w.scale_low : operand.w.scale_high) * part[i];
      }
    }
    at.advance();
  }
  pin(sum);
}

}  // namespace tessera::cuda

// Sixteen rows of a weight in the registers of a warp, as the first operand of mma.m16n8k16. The second
// operand is x: lane (g, t) holds columns 8 t .. 8 t + 7 of each 32 of row g, so that eight consecutive
// values feed two products. Which column is which k of the mma does not matter as long as both operands
// agree.
#pragma once

#include "backend/cuda/activation.cuh"
#include "backend/cuda/async_copy.cuh"

namespace tessera::cuda {

__device__ __forceinline__ void mma_bf16(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_bf16_from_zero(float (&sum)[4], const std::uint32_t (&a)[4],
                                                   std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%10,%10,%10,%10};"
      : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
}

__device__ __forceinline__ uint4 load_once(const void* address) {  // streamed: read once, kept nowhere
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

__device__ __forceinline__ std::uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// Pair i of a word, columns 2 i and 2 i + 1, as (code - 8) / 64. Eight bits at the bottom of a bf16 count in
// steps of 2^-133, whether the number is subnormal or in the first binade; so a masked nibble is a number
// already, and one multiply-add makes it the weight. Exact. The factor 64 is in the scales (kInt4ScaleUp).
__device__ __forceinline__ std::uint32_t int4_pair(std::uint32_t word, int i) {
  const std::uint32_t bytes = i < 2 ? word : word >> 8;
  const std::uint32_t bits = bytes & (i % 2 == 0 ? 0x000f000fU : 0x00f000f0U);
  const std::uint32_t up = i % 2 == 0 ? 0x7f007f00U : 0x7d007d00U;  // 2^127, 2^123
  const std::uint32_t offset = 0xbe00be00U;                         // -8 / 64
  std::uint32_t value;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(value) : "r"(bits), "r"(up), "r"(offset));
  return value;
}

// e4m3 in the fields of a bf16 is the value x 2^-120, subnormals included.
__device__ __forceinline__ std::uint32_t fp8_pair(std::uint32_t word, int i) {
  const std::uint32_t bytes = i == 0 ? word << 8 : word;
  const std::uint32_t bits = (bytes & 0x80008000U) | ((bytes & 0x7f007f00U) >> 4);
  const float scale = 1.329227995784916e36F;  // 2^120
  const __nv_bfloat162 value =
      __hmul2(reinterpret_cast<const __nv_bfloat162&>(bits), __floats2bfloat162_rn(scale, scale));
  return reinterpret_cast<const std::uint32_t&>(value);
}

// Where a warp's rows start: 8-row groups `group` and `group + 1`.
struct WeightRows {
  const unsigned char* low;        // of rows 0..7, this lane's part
  const unsigned char* high;       // of rows 8..15
  const unsigned char* low_scale;  // likewise; null for bf16
  const unsigned char* high_scale;
};

// kStageBytes: of one load of a warp in shared memory. fetch() and take() are load() in two halves: between
// them every lane waits for its copies and then for the other lanes.
template <WeightFormat F>
struct WeightFragment;

template <>
struct WeightFragment<WeightFormat::kBF16> {
  static constexpr int kCols = 64;  // of one load
  static constexpr bool kScaled = false;
  uint4 low[2], high[2];

  static __device__ WeightRows rows(const TiledWeight& w, std::int64_t matrix, std::int64_t row, int lane) {
    const auto* data = static_cast<const unsigned char*>(w.data) + matrix * w.data_stride +
                       row / 8 * w.padded_in * 16 + lane % 4 * 128 + lane / 4 * 16;
    return {data, data + std::int64_t{w.padded_in} * 16, nullptr, nullptr};
  }
  __device__ void load(const WeightRows& rows, std::int64_t col) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      low[j] = load_once(rows.low + (col + 32 * j) * 16);
      high[j] = load_once(rows.high + (col + 32 * j) * 16);
    }
  }
  // A copy is fast where neighbouring lanes ask for neighbouring bytes, and this layout has a lane's own
  // bytes elsewhere: lane l fetches the l-th 16 of a line and takes the l % 4 * 8 + l / 4-th. Both are free
  // of bank conflicts where the eighths of row r of eight lie at their number xor 2 r.
  static __device__ int place_of(int chunk) { return (chunk / 8 * 8 + (chunk % 8 ^ chunk / 8 * 2)) * 16; }
  static constexpr int kStageBytes = 4 * 512;
  static __device__ void fetch(unsigned char* stage, const WeightRows& rows, std::int64_t col, int lane) {
    const int shift =
        lane * 16 - (lane % 4 * 128 + lane / 4 * 16);  // from this lane's bytes to those it fetches
    const int place = place_of(lane);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      copy_16(stage + (2 * j) * 512 + place, rows.low + (col + 32 * j) * 16 + shift);
      copy_16(stage + (2 * j + 1) * 512 + place, rows.high + (col + 32 * j) * 16 + shift);
    }
  }
  __device__ void take(const unsigned char* stage, int lane) {
    const int place = place_of(lane % 4 * 8 + lane / 4);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      low[j] = *reinterpret_cast<const uint4*>(stage + (2 * j) * 512 + place);
      high[j] = *reinterpret_cast<const uint4*>(stage + (2 * j + 1) * 512 + place);
    }
  }
  __device__ void unpack(int j, std::uint32_t (&a)[2][4]) const {
    const uint4 l = j == 0 ? low[0] : low[1];
    const uint4 h = j == 0 ? high[0] : high[1];
    a[0][0] = l.x, a[0][1] = h.x, a[0][2] = l.y, a[0][3] = h.y;
    a[1][0] = l.z, a[1][1] = h.z, a[1][2] = l.w, a[1][3] = h.w;
  }
  __device__ float low_scale(int) const { return 1; }
  __device__ float high_scale(int) const { return 1; }
};

template <>
struct WeightFragment<WeightFormat::kFp8Block128> {
  static constexpr int kCols = 128;
  static constexpr bool kScaled = true;
  uint4 low[2], high[2];
  float scale_low, scale_high;

  static __device__ WeightRows rows(const TiledWeight& w, std::int64_t matrix, std::int64_t row, int lane) {
    const auto* data = static_cast<const unsigned char*>(w.data) + matrix * w.data_stride +
                       row / 8 * w.padded_in * 8 + lane * 16;
    const auto* scale = static_cast<const unsigned char*>(w.scale) + matrix * w.scale_stride +
                        row / 8 * w.padded_in / 128 * 32 + lane / 4 * 4;
    return {data, data + std::int64_t{w.padded_in} * 8, scale, scale + w.padded_in / 128 * 32};
  }
  __device__ void load(const WeightRows& rows, std::int64_t col) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      low[j] = load_once(rows.low + (col + 64 * j) * 8);
      high[j] = load_once(rows.high + (col + 64 * j) * 8);
    }
    scale_low = *reinterpret_cast<const float*>(rows.low_scale + col / 128 * 32);
    scale_high = *reinterpret_cast<const float*>(rows.high_scale + col / 128 * 32);
  }
  static constexpr int kStageBytes = 4 * 512 + 2 * 128;
  static __device__ void fetch(unsigned char* stage, const WeightRows& rows, std::int64_t col, int lane) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      copy_16(stage + (2 * j) * 512 + lane * 16, rows.low + (col + 64 * j) * 8);
      copy_16(stage + (2 * j + 1) * 512 + lane * 16, rows.high + (col + 64 * j) * 8);
    }
    copy_few<4>(stage + 2048 + lane * 4, rows.low_scale + col / 128 * 32);
    copy_few<4>(stage + 2176 + lane * 4, rows.high_scale + col / 128 * 32);
  }
  __device__ void take(const unsigned char* stage, int lane) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      low[j] = *reinterpret_cast<const uint4*>(stage + (2 * j) * 512 + lane * 16);
      high[j] = *reinterpret_cast<const uint4*>(stage + (2 * j + 1) * 512 + lane * 16);
    }
    scale_low = *reinterpret_cast<const float*>(stage + 2048 + lane * 4);
    scale_high = *reinterpret_cast<const float*>(stage + 2176 + lane * 4);
  }
  __device__ void unpack(int j, std::uint32_t (&a)[2][4]) const {
    const uint4 l = j < 2 ? low[0] : low[1];
    const uint4 h = j < 2 ? high[0] : high[1];
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const std::uint32_t lw = word_of(l, j % 2 * 2 + s);
      const std::uint32_t hw = word_of(h, j % 2 * 2 + s);
      a[s][0] = fp8_pair(lw, 0), a[s][1] = fp8_pair(hw, 0);
      a[s][2] = fp8_pair(lw, 1), a[s][3] = fp8_pair(hw, 1);
    }
  }
  __device__ float low_scale(int) const { return scale_low; }
  __device__ float high_scale(int) const { return scale_high; }
};

template <>
struct WeightFragment<WeightFormat::kInt4Group32> {
  static constexpr int kCols = 128;
  static constexpr bool kScaled = true;
  uint4 low, high;
  uint2 scales_low, scales_high;  // four bf16, one a group

  static __device__ WeightRows rows(const TiledWeight& w, std::int64_t matrix, std::int64_t row, int lane) {
    const auto* data = static_cast<const unsigned char*>(w.data) + matrix * w.data_stride +
                       row / 8 * w.padded_in * 4 + lane * 16;
    const auto* scale = static_cast<const unsigned char*>(w.scale) + matrix * w.scale_stride +
                        row / 8 * w.padded_in / 128 * 64 + lane / 4 * 8;
    return {data, data + std::int64_t{w.padded_in} * 4, scale, scale + w.padded_in / 128 * 64};
  }
  __device__ void load(const WeightRows& rows, std::int64_t col) {
    low = load_once(rows.low + col * 4);
    high = load_once(rows.high + col * 4);
    scales_low = __ldg(reinterpret_cast<const uint2*>(rows.low_scale + col / 128 * 64));
    scales_high = __ldg(reinterpret_cast<const uint2*>(rows.high_scale + col / 128 * 64));
  }
  static constexpr int kStageBytes = 2 * 512 + 2 * 256;
  static __device__ void fetch(unsigned char* stage, const WeightRows& rows, std::int64_t col, int lane) {
    copy_16(stage + lane * 16, rows.low + col * 4);
    copy_16(stage + 512 + lane * 16, rows.high + col * 4);
    copy_few<8>(stage + 1024 + lane * 8, rows.low_scale + col / 128 * 64);
    copy_few<8>(stage + 1280 + lane * 8, rows.high_scale + col / 128 * 64);
  }
  __device__ void take(const unsigned char* stage, int lane) {
    low = *reinterpret_cast<const uint4*>(stage + lane * 16);
    high = *reinterpret_cast<const uint4*>(stage + 512 + lane * 16);
    scales_low = *reinterpret_cast<const uint2*>(stage + 1024 + lane * 8);
    scales_high = *reinterpret_cast<const uint2*>(stage + 1280 + lane * 8);
  }
  __device__ void unpack(int j, std::uint32_t (&a)[2][4]) const {
    const std::uint32_t l = word_of(low, j);
    const std::uint32_t h = word_of(high, j);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      a[s][0] = int4_pair(l, 2 * s), a[s][1] = int4_pair(h, 2 * s);
      a[s][2] = int4_pair(l, 2 * s + 1), a[s][3] = int4_pair(h, 2 * s + 1);
    }
  }
  static __device__ float scale_of(const uint2& scales, int j) {
    const std::uint32_t pair = j < 2 ? scales.x : scales.y;
    return __uint_as_float(j % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
  }
  __device__ float low_scale(int j) const { return scale_of(scales_low, j); }
  __device__ float high_scale(int j) const { return scale_of(scales_high, j); }
};

// sum += W[16 rows, 32 columns] x[8 rows, 32 columns]^T. Codes are multiplied exactly; their scale meets the
// sum over the 32 columns, in f32.
template <class Fragment>
__device__ __forceinline__ void multiply_32(float (&sum)[4], const std::uint32_t (&a)[2][4], const uint4& x,
                                            float low_scale, float high_scale) {
  if constexpr (Fragment::kScaled) {
    float part[4];
    mma_bf16_from_zero(part, a[0], x.x, x.y);
    mma_bf16(part, a[1], x.z, x.w);
    sum[0] += low_scale * part[0];
    sum[1] += low_scale * part[1];
    sum[2] += high_scale * part[2];
    sum[3] += high_scale * part[3];
  } else {
    mma_bf16(sum, a[0], x.x, x.y);
    mma_bf16(sum, a[1], x.z, x.w);
  }
}

}  // namespace tessera::cuda

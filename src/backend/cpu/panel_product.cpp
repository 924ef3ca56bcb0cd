#include "backend/cpu/panel_product.h"

#include <algorithm>

#include "base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/panel_product.cpp"
// clang-format off: this header comes first
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format on
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
using WordTag = hn::RebindToUnsigned<Tag>;
using Words = hn::Vec<WordTag>;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
constexpr int kVectors = static_cast<int>(kPanel) / kLanes;  // of a panel
constexpr int kFusedRows = HWY_MAX_BYTES >= 64 ? 4 : HWY_MAX_BYTES >= 32 ? 2 : 1;

// Bytes: some 150 ns of reading at 15 GB/s. The hardware prefetches too, but waits at every page.
constexpr std::int64_t kPrefetchAhead = 2048;

// How one format is read: a step is the smallest piece of a panel that holds whole inputs, kStep of them.
struct F32Steps {
  static constexpr int kStep = 1;
  static constexpr std::int64_t kStepBytes = kPanel * 4;
  static constexpr bool kScaled = false;
  using Raw = Vec;
  static HWY_INLINE Raw load(const std::byte* step, int vector) {
    return hn::LoadU(Tag(), reinterpret_cast<const float*>(step) + vector * kLanes);
  }
  template <int J>
  static HWY_INLINE Vec value(Raw raw) {
    return raw;
  }
};

struct BF16Steps {
  static constexpr int kStep = 2;
  static constexpr std::int64_t kStepBytes = kPanel * 4;
  static constexpr bool kScaled = false;
  using Raw = Words;
  static HWY_INLINE Raw load(const std::byte* step, int vector) {
    return hn::LoadU(WordTag(), reinterpret_cast<const std::uint32_t*>(step) + vector * kLanes);
  }
  template <int J>
  static HWY_INLINE Vec value(Raw raw) {
    if constexpr (J == 0) return hn::BitCast(Tag(), hn::ShiftLeft<16>(raw));
    return hn::BitCast(Tag(), hn::And(raw, hn::Set(WordTag(), 0xffff0000u)));
  }
};

// e4m3 shifted into the fields of an f16 is the value x 2^-8, subnormals included; scale() undoes the 2^-8.
struct Fp8Steps {
  static constexpr int kStep = 1;
  static constexpr std::int64_t kStepBytes = kPanel;
  static constexpr bool kScaled = true;
  using Raw = Vec;
  static HWY_INLINE Raw load(const std::byte* step, int vector) {
    const hn::Rebind<std::int8_t, Tag> bytes;
    const hn::Rebind<std::int16_t, Tag> shorts;
    const hn::Rebind<hwy::float16_t, Tag> halves;
    const auto code = hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(step) + vector * kLanes);
    // Sign-extended, so the sign sits in bits 7 to 15; after the shift it is right in bit 15 and wrong in
    // bit 14.
    const auto bits = hn::And(hn::ShiftLeft<7>(hn::PromoteTo(shorts, code)),
                              hn::Set(shorts, static_cast<std::int16_t>(0xbfff)));
    return hn::PromoteTo(Tag(), hn::BitCast(halves, bits));
  }
  template <int J>
  static HWY_INLINE Vec value(Raw raw) {
    return raw;
  }
  static HWY_INLINE Vec scale(const std::byte* scales, std::int64_t sum, int vector) {
    const auto* from = reinterpret_cast<const float*>(scales) + sum * kPanel + vector * kLanes;
    return hn::Mul(hn::LoadU(Tag(), from), hn::Set(Tag(), 256.0F));
  }
};

struct Int4Steps {
  static constexpr int kStep = 8;
  static constexpr std::int64_t kStepBytes = kPanel * 4;
  static constexpr bool kScaled = true;
  using Raw = Words;
  static HWY_INLINE Raw load(const std::byte* step, int vector) {
    return hn::LoadU(WordTag(), reinterpret_cast<const std::uint32_t*>(step) + vector * kLanes);
  }
  template <int J>
  static HWY_INLINE Vec value(Raw raw) {
    const Words shifted = hn::ShiftRight<4 * J>(raw);
#if HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3
    // One permutation of a table of the 16 values; it looks at the lowest four bits of each index only.
    alignas(64) static constexpr float kValues[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return Vec{_mm512_permutexvar_ps(shifted.raw, hn::Load(Tag(), kValues).raw)};
#else
    const hn::RebindToSigned<Tag> ints;
    const auto nibble = hn::BitCast(ints, hn::And(shifted, hn::Set(WordTag(), 15)));
    return hn::ConvertTo(Tag(), hn::Sub(nibble, hn::Set(ints, 8)));
#endif
  }
  static HWY_INLINE Vec scale(const std::byte* scales, std::int64_t sum, int vector) {
    const hn::Rebind<std::uint16_t, Tag> shorts;
    const auto* from = reinterpret_cast<const std::uint16_t*>(scales) + sum * kPanel + vector * kLanes;
    return hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(WordTag(), hn::LoadU(shorts, from))));
  }
};

// The inputs J, J + 1, … Count - 1 of one step, for P panels of R rows.
template <class Steps, int R, int P, int Count, int J = 0>
HWY_INLINE void add_step(const typename Steps::Raw (&raw)[P * kVectors], const float* const (&x)[R],
                         std::int64_t k, Vec (&sum)[R][P * kVectors]) {
  if constexpr (J < Count) {
    Vec input[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) input[r] = hn::Set(Tag(), x[r][k + J]);
#pragma GCC unroll 16
    for (int v = 0; v < P * kVectors; ++v) {
      const Vec weight = Steps::template value<J>(raw[v]);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(input[r], weight, sum[r][v]);
    }
    add_step<Steps, R, P, Count, J + 1>(raw, x, k, sum);
  }
}

// P neighbouring panels x R rows: R * P * kVectors chains at once.
template <class Steps, int R, int P>
HWY_NOINLINE void few_rows(const PackedMatrix& m, std::int64_t panel, const PanelProduct& p,
                           WeightFormat format) {
  constexpr int kAll = P * kVectors;
  const std::int64_t data_bytes = panel_data_bytes(format, m.in);
  const std::int64_t scale_bytes = panel_scale_bytes(format, m.in);
  const std::byte* data = m.data + panel * data_bytes;
  const std::byte* scales = m.scale + panel * scale_bytes;
  const std::int64_t length = sum_length(format);
  const float* x[R];
  for (int r = 0; r < R; ++r) x[r] = p.x[r];
  Vec total[R][kAll];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kAll; ++v) total[r][v] = hn::Zero(Tag());
  }
  for (std::int64_t from = 0, index = 0; from < m.in; from += length, ++index) {
    const std::int64_t end = from + length < m.in ? from + length : m.in;
    Vec sum[R][kAll];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kAll; ++v) sum[r][v] = hn::Zero(Tag());
    }
    std::int64_t k = from;
    for (; k + Steps::kStep <= end; k += Steps::kStep) {
      for (int q = 0; q < P; ++q) {
        const std::byte* ahead =
            data + q * data_bytes + k / Steps::kStep * Steps::kStepBytes + kPrefetchAhead;
        for (std::int64_t b = 0; b < Steps::kStepBytes; b += 64) __builtin_prefetch(ahead + b);
      }
      typename Steps::Raw raw[kAll];
#pragma GCC unroll 16
      for (int v = 0; v < kAll; ++v) {
        raw[v] = Steps::load(data + v / kVectors * data_bytes + k / Steps::kStep * Steps::kStepBytes,
                             v % kVectors);
      }
      add_step<Steps, R, P, Steps::kStep>(raw, x, k, sum);
    }
    if (k < end) {  // the single last input of an odd bf16 matrix
      typename Steps::Raw raw[kAll];
#pragma GCC unroll 16
      for (int v = 0; v < kAll; ++v) {
        raw[v] = Steps::load(data + v / kVectors * data_bytes + k / Steps::kStep * Steps::kStepBytes,
                             v % kVectors);
      }
      add_step<Steps, R, P, 1>(raw, x, k, sum);
    }
#pragma GCC unroll 16
    for (int v = 0; v < kAll; ++v) {
      if constexpr (Steps::kScaled) {
        const Vec scale = Steps::scale(scales + v / kVectors * scale_bytes, index, v % kVectors);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) total[r][v] = hn::MulAdd(sum[r][v], scale, total[r][v]);
      } else {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) total[r][v] = hn::Add(total[r][v], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < P; ++q) {
      const std::int64_t first = (panel + q) * kPanel;
      float* y = p.y + r * p.y_stride + first;
      if (first + kPanel <= m.out) {
        for (int v = 0; v < kVectors; ++v) hn::StoreU(total[r][q * kVectors + v], Tag(), y + v * kLanes);
      } else {
        alignas(64) float last[kPanel];
        for (int v = 0; v < kVectors; ++v) hn::StoreU(total[r][q * kVectors + v], Tag(), last + v * kLanes);
        std::copy(last, last + (m.out - first), y);
      }
    }
  }
}

template <class Steps>
void panels(const PackedMatrix& m, std::int64_t first, std::int64_t last, const PanelProduct& p) {
  std::int64_t panel = first;
  switch (p.rows) {
    case 1:
      for (; panel + 2 <= last; panel += 2) few_rows<Steps, 1, 2>(m, panel, p, m.format);
      if (panel < last) few_rows<Steps, 1, 1>(m, panel, p, m.format);
      return;
    case 2:
      if constexpr (kFusedRows >= 2) {
        for (; panel < last; ++panel) few_rows<Steps, 2, 1>(m, panel, p, m.format);
      }
      return;
    case 3:
      if constexpr (kFusedRows >= 3) {
        for (; panel < last; ++panel) few_rows<Steps, 3, 1>(m, panel, p, m.format);
      }
      return;
    case 4:
      if constexpr (kFusedRows >= 4) {
        for (; panel < last; ++panel) few_rows<Steps, 4, 1>(m, panel, p, m.format);
      }
      return;
    default:
      return;
  }
}

void panel_product_simd(const PackedMatrix& m, std::int64_t first, std::int64_t last, const PanelProduct& p) {
  switch (m.format) {
    case WeightFormat::kF32:
      return panels<F32Steps>(m, first, last, p);
    case WeightFormat::kBF16:
      return panels<BF16Steps>(m, first, last, p);
    case WeightFormat::kFp8Block128:
      return panels<Fp8Steps>(m, first, last, p);
    case WeightFormat::kInt4Group32:
      return panels<Int4Steps>(m, first, last, p);
  }
}

template <class Steps, int J = 0>
HWY_INLINE void store_step(typename Steps::Raw raw, float* dst, std::int64_t count) {
  if constexpr (J < Steps::kStep) {
    if (J < count) hn::StoreU(Steps::template value<J>(raw), Tag(), dst + J * kPanel);
    store_step<Steps, J + 1>(raw, dst, count);
  }
}

template <class Steps>
void unpack(const std::byte* data, std::int64_t from, std::int64_t count, float* dst) {
  for (std::int64_t k = 0; k < count; k += Steps::kStep) {
    for (int v = 0; v < kVectors; ++v) {
      const auto raw = Steps::load(data + (from + k) / Steps::kStep * Steps::kStepBytes, v);
      store_step<Steps>(raw, dst + k * kPanel + v * kLanes, count - k);
    }
  }
}

void unpack_block_simd(const PackedMatrix& m, std::int64_t panel, std::int64_t from, std::int64_t count,
                       float* dst) {
  const std::byte* data = m.data + panel * panel_data_bytes(m.format, m.in);
  switch (m.format) {
    case WeightFormat::kF32:
      return unpack<F32Steps>(data, from, count, dst);
    case WeightFormat::kBF16:
      return unpack<BF16Steps>(data, from, count, dst);
    case WeightFormat::kFp8Block128:
      return unpack<Fp8Steps>(data, from, count, dst);
    case WeightFormat::kInt4Group32:
      return unpack<Int4Steps>(data, from, count, dst);
  }
}

void unpack_scale_simd(const PackedMatrix& m, std::int64_t panel, std::int64_t from, float* dst) {
  const std::byte* scales = m.scale + panel * panel_scale_bytes(m.format, m.in);
  for (int v = 0; v < kVectors; ++v) {
    const Vec scale = m.format == WeightFormat::kInt4Group32 ? Int4Steps::scale(scales, from / kInt4Group, v)
                                                             : Fp8Steps::scale(scales, from / kDepthBlock, v);
    hn::StoreU(scale, Tag(), dst + v * kLanes);
  }
}

int most_fused_rows_simd() { return kFusedRows; }

const char* instruction_set_simd() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return "AVX-512";
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return "AVX2";
#elif HWY_TARGET == HWY_NEON
  return "NEON";
#else
  return "portable";
#endif
}

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(panel_product_simd);
HWY_EXPORT(unpack_block_simd);
HWY_EXPORT(unpack_scale_simd);
HWY_EXPORT(most_fused_rows_simd);
HWY_EXPORT(instruction_set_simd);

int most_fused_rows() { return HWY_DYNAMIC_DISPATCH(most_fused_rows_simd)(); }

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(instruction_set_simd)(); }

void panel_product(const PackedMatrix& matrix, std::int64_t first, std::int64_t last,
                   const PanelProduct& product) {
  TS_DCHECK(product.rows >= 1 && product.rows <= most_fused_rows(), product.rows, most_fused_rows());
  HWY_DYNAMIC_DISPATCH(panel_product_simd)(matrix, first, last, product);
}

void unpack_block(const PackedMatrix& matrix, std::int64_t panel, std::int64_t from, std::int64_t count,
                  float* dst) {
  HWY_DYNAMIC_DISPATCH(unpack_block_simd)(matrix, panel, from, count, dst);
}

void unpack_scale(const PackedMatrix& matrix, std::int64_t panel, std::int64_t from, float* dst) {
  HWY_DYNAMIC_DISPATCH(unpack_scale_simd)(matrix, panel, from, dst);
}

}  // namespace tessera
#endif

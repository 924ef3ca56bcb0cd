#include "backend/cpu/kv_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "tensor/dtype.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kv_rows.cpp"
// clang-format off: this header comes first
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format on
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;

void widen_bf16(const std::byte* src, std::int64_t count, float* dst) {
  const hn::Rebind<std::uint16_t, Tag> shorts;
  const hn::RebindToUnsigned<Tag> words;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag()));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::LoadU(shorts, reinterpret_cast<const std::uint16_t*>(src) + i);
    hn::StoreU(hn::BitCast(Tag(), hn::ShiftLeft<16>(hn::PromoteTo(words, bits))), Tag(), dst + i);
  }
  for (; i < count; ++i) {
    BF16 value;
    std::memcpy(&value.bits, src + i * 2, 2);
    dst[i] = static_cast<float>(value);
  }
}

// e4m3 in the fields of an f16 is the value x 2^-8; unlike weights, cached values may be NaN and stay so.
void widen_fp8(const std::byte* src, std::int64_t count, float scale, float* dst) {
  const hn::Rebind<std::int8_t, Tag> bytes;
  const hn::Rebind<std::int16_t, Tag> shorts;
  const hn::Rebind<hwy::float16_t, Tag> halves;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag()));
  const auto magnitude = hn::Set(shorts, 0x3f80);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto code = hn::LoadU(bytes, reinterpret_cast<const std::int8_t*>(src) + i);
    const auto shifted = hn::And(hn::ShiftLeft<7>(hn::PromoteTo(shorts, code)),
                                 hn::Set(shorts, static_cast<std::int16_t>(0xbfff)));
    const auto is_nan = hn::Eq(hn::And(shifted, magnitude), magnitude);
    const auto bits = hn::Or(shifted, hn::IfThenElseZero(is_nan, hn::Set(shorts, 0x7c00)));
    const auto value = hn::Mul(hn::PromoteTo(Tag(), hn::BitCast(halves, bits)), hn::Set(Tag(), 256.0F));
    hn::StoreU(hn::Mul(value, hn::Set(Tag(), scale)), Tag(), dst + i);
  }
  for (; i < count; ++i) {
    F8E4M3 value;
    std::memcpy(&value.bits, src + i, 1);
    dst[i] = static_cast<float>(value) * scale;
  }
}

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(widen_bf16);
HWY_EXPORT(widen_fp8);

namespace {

constexpr std::int64_t kGroup = 128;

// The smallest group maximum whose scale is still a normal f32: an all-zero group gets a scale that can be
// divided by.
constexpr float kTiny = 448.0F * std::numeric_limits<float>::min();

std::byte* row_of(const KvLayer& kv, std::int64_t slot) {
  TS_DCHECK(slot >= 0 && slot < std::int64_t{kv.blocks} * kv.block_size, slot, kv.blocks, kv.block_size);
  return static_cast<std::byte*>(kv.data) + slot * kv.row_bytes;
}

void narrow_bf16(const float* src, std::int64_t count, std::byte* dst) {
  for (std::int64_t i = 0; i < count; ++i) {
    const BF16 value(src[i]);
    std::memcpy(dst + i * 2, &value.bits, 2);
  }
}

void narrow_fp8(const float* src, std::int64_t count, float scale, std::byte* dst) {
  for (std::int64_t i = 0; i < count; ++i) {
    const F8E4M3 value(src[i] / scale);
    std::memcpy(dst + i, &value.bits, 1);
  }
}

}  // namespace

void write_row_values(const KvLayer& kv, std::int64_t slot, std::int64_t first, std::int64_t count,
                      const float* values) {
  std::byte* row = row_of(kv, slot);
  switch (kv.format) {
    case KvFormat::kF32:
      std::memcpy(row + first * 4, values, static_cast<std::size_t>(count) * 4);
      return;
    case KvFormat::kBF16:
      return narrow_bf16(values, count, row + first * 2);
    case KvFormat::kFp8:
      return narrow_fp8(values, count, kv.scale, row + first);
    case KvFormat::kFp8Grouped:
      TS_CHECK(false, name_of(kv.format));
  }
}

void write_grouped_row(const KvLayer& kv, std::int64_t slot, const float* latent, const float* rope_key) {
  std::byte* row = row_of(kv, slot);
  const std::int64_t groups = kv.shape.latent / kGroup;
  for (std::int64_t g = 0; g < groups; ++g) {
    const float* values = latent + g * kGroup;
    float largest = kTiny;
    for (std::int64_t i = 0; i < kGroup; ++i) largest = std::max(largest, std::fabs(values[i]));
    const float scale = largest / F8E4M3::kMax;
    narrow_fp8(values, kGroup, scale, row + g * kGroup);
    std::memcpy(row + kv.shape.latent + g * 4, &scale, 4);
  }
  narrow_bf16(rope_key, kv.shape.rope, row + kv.shape.latent + groups * 4);
}

void read_row_values(const KvLayer& kv, const std::byte* row, std::int64_t first, std::int64_t count,
                     float* dst) {
  switch (kv.format) {
    case KvFormat::kF32:
      std::memcpy(dst, row + first * 4, static_cast<std::size_t>(count) * 4);
      return;
    case KvFormat::kBF16:
      HWY_DYNAMIC_DISPATCH(widen_bf16)(row + first * 2, count, dst);
      return;
    case KvFormat::kFp8:
      HWY_DYNAMIC_DISPATCH(widen_fp8)(row + first, count, kv.scale, dst);
      return;
    case KvFormat::kFp8Grouped: {
      const std::int64_t latent = kv.shape.latent;
      const std::int64_t end = first + count;
      std::int64_t at = first;
      for (; at < std::min(end, latent); at += kGroup) {
        float scale = 0;
        std::memcpy(&scale, row + latent + at / kGroup * 4, 4);
        HWY_DYNAMIC_DISPATCH(widen_fp8)(row + at, std::min(kGroup, end - at), scale, dst + (at - first));
      }
      if (at < end) {
        const std::byte* rope = row + latent + latent / kGroup * 4;
        HWY_DYNAMIC_DISPATCH(widen_bf16)(rope + (at - latent) * 2, end - at, dst + (at - first));
      }
      return;
    }
  }
}

}  // namespace tessera
#endif

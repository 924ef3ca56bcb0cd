// Element types of tensors, and the two small floats that C++20 lacks.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class DType : std::uint8_t { kF32, kBF16, kF16, kF8E4M3, kI32, kI64, kU8, kBool };

constexpr std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kI64:
      return 8;
    case DType::kF8E4M3:
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF8E4M3:
      return "fp8_e4m3";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kU8:
      return "u8";
    case DType::kBool:
      return "bool";
  }
  return "?";
}

// The upper half of an f32; conversion rounds to nearest, ties to even, and keeps NaN a NaN.
struct BF16 {
  std::uint16_t bits = 0;

  BF16() = default;
  explicit BF16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) {
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  friend bool operator==(BF16, BF16) = default;
};

// OCP FP8 E4M3 ("e4m3fn"): bias 7, no infinities, 0x7f and 0xff are NaN, largest finite 448.
// Conversion from f32 saturates at +-448 and rounds to nearest, ties to even (as __NV_SATFINITE does); NaN
// stays NaN.
struct F8E4M3 {
  std::uint8_t bits = 0;

  static constexpr float kMax = 448.0F;

  F8E4M3() = default;
  explicit F8E4M3(float value);
  explicit operator float() const;
  friend bool operator==(F8E4M3, F8E4M3) = default;
};

}  // namespace tessera

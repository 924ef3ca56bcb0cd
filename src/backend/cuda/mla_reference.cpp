#include "backend/cuda/mla_reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace tessera::cuda {

float bf16_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float e4m3_value(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 15;
  const int mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint8_t e4m3_bits(float value) {
  if (std::isnan(value)) return 0x7F;
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::min(std::abs(value), 448.0F);
  int exponent = 0;
  std::frexp(magnitude, &exponent);             // magnitude = f * 2^exponent, f in [0.5, 1)
  const int step = std::max(exponent - 4, -9);  // log2 of the distance between neighbours
  const auto count = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -step)));  // 0..16
  const float rounded = std::ldexp(static_cast<float>(count), step);
  if (rounded == 0.0F) return sign;
  std::frexp(rounded, &exponent);
  if (exponent - 1 < -6) return static_cast<std::uint8_t>(sign | static_cast<int>(std::ldexp(rounded, 9)));
  const auto mantissa = static_cast<int>(std::ldexp(rounded, 4 - exponent)) - 8;
  return static_cast<std::uint8_t>(sign | (exponent - 1 + 7) << 3 | mantissa);
}

std::vector<double> mla_row_values(KvFormat format, const std::uint8_t* row, double scale) {
  constexpr int kDim = 576;
  std::vector<double> values(kDim);
  const auto half_at = [&](const std::uint8_t* at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, 2);
    return static_cast<double>(bf16_value(bits));
  };
  for (int i = 0; i < kDim; ++i) {
    double& value = values[static_cast<std::size_t>(i)];
    switch (format) {
      case KvFormat::kF32: {
        float f = 0.0F;
        std::memcpy(&f, row + 4 * i, 4);
        value = f;
        break;
      }
      case KvFormat::kBF16:
        value = half_at(row + 2 * i);
        break;
      case KvFormat::kFp8:
        value = e4m3_value(row[i]) * scale;
        break;
      case KvFormat::kFp8Grouped:
        if (i < 512) {
          float group = 0.0F;
          std::memcpy(&group, row + 512 + 4 * (i / 128), 4);
          value = static_cast<double>(e4m3_value(row[i])) * group;
        } else {
          value = half_at(row + 528 + 2 * (i - 512));
        }
        break;
    }
  }
  return values;
}

MlaReferenceResult mla_reference(const MlaReferenceWork& work) {
  MlaReferenceResult result{.out = std::vector<double>(512, 0.0),
                            .lse = -std::numeric_limits<double>::infinity()};
  const auto row_bytes = *kv_row_bytes(work.format, KvRowShape::mla(512, 64));
  std::array<double, 576> q{};
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = bf16_value(work.q[i]);
  // Online softmax: one pass, since decoding a row costs more than using it.
  double top = -std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (std::int32_t r = 0; r < work.rows; ++r) {
    const std::int64_t block = work.block_table[static_cast<std::size_t>(r / 64)];
    const auto values =
        mla_row_values(work.format, work.kv + (block * 64 + r % 64) * row_bytes, work.kv_scale);
    double score = 0.0;
    for (std::size_t i = 0; i < q.size(); ++i) score += q[i] * values[i];
    score *= work.softmax_scale;
    if (score > top) {
      const double shrink = std::exp(top - score);
      sum *= shrink;
      for (double& o : result.out) o *= shrink;
      top = score;
    }
    const double p = std::exp(score - top);
    sum += p;
    for (std::size_t i = 0; i < result.out.size(); ++i) result.out[i] += p * values[i];
  }
  if (work.rows > 0) {
    for (double& o : result.out) o /= sum;
    result.lse = top + std::log(sum);
  }
  return result;
}

}  // namespace tessera::cuda

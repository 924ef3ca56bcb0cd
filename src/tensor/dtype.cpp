#include "tensor/dtype.h"

#include <array>

namespace tessera {
namespace {

constexpr float decode_e4m3(std::uint8_t bits) {
  const int exponent = (bits >> 3) & 0xf;
  const int mantissa = bits & 0x7;
  float magnitude = 0;
  if (exponent == 15 && mantissa == 7) {
    magnitude = std::bit_cast<float>(0x7fc00000u);
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9F;
  } else {
    magnitude = std::bit_cast<float>((static_cast<std::uint32_t>(exponent + 120) << 23) |
                                     (static_cast<std::uint32_t>(mantissa) << 20));
  }
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

constexpr std::array<float, 256> kDecoded = [] {
  std::array<float, 256> table{};
  for (int i = 0; i < 256; ++i)
    table[static_cast<std::size_t>(i)] = decode_e4m3(static_cast<std::uint8_t>(i));
  return table;
}();

}  // namespace

F8E4M3::F8E4M3(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>((u >> 24) & 0x80u);
  const float magnitude = std::fabs(value);
  std::uint8_t code = 0;
  if (std::isnan(value)) {
    code = 0x7f;
  } else if (magnitude >= kMax) {
    code = 0x7e;
  } else if (magnitude < 0x1p-6F) {
    // Subnormal: multiples of 2^-9; the nearest even integer. 8 is the smallest normal, whose code is also 8.
    code = static_cast<std::uint8_t>(std::nearbyint(magnitude * 0x1p9F));
  } else {
    // Keep three mantissa bits, round to nearest even; a carry runs into the exponent by itself.
    const std::uint32_t m = u & 0x7fffffffu;
    const std::uint32_t rounded = m + 0x7ffffu + ((m >> 20) & 1u);
    const std::uint32_t rebased = (rounded >> 20) - (120u << 3);
    code = rebased > 0x7e ? std::uint8_t{0x7e} : static_cast<std::uint8_t>(rebased);
  }
  bits = static_cast<std::uint8_t>(code | sign);
}

F8E4M3::operator float() const { return kDecoded[bits]; }

}  // namespace tessera

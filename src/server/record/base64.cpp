#include "server/record/base64.h"

#include <algorithm>
#include <cstdint>

namespace tessera {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8U | (i < count ? static_cast<std::uint8_t>(bytes[at + i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? kDigits[group >> (18 - 6 * i) & 63U] : '=';
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::string_view quad = text.substr(at, 4);
    const bool is_last = at + 4 == text.size();
    while (is_last && quad.size() > 2 && quad.back() == '=') quad.remove_suffix(1);
    std::uint32_t group = 0;
    for (const char c : quad) {
      const std::size_t digit = kDigits.find(c);
      if (digit == std::string_view::npos) return std::nullopt;
      group = group << 6U | static_cast<std::uint32_t>(digit);
    }
    group <<= 6 * (4 - quad.size());
    for (std::size_t i = 0; i + 1 < quad.size(); ++i) out += static_cast<char>(group >> (16 - 8 * i) & 255U);
  }
  if (to_base64(out) != text) return std::nullopt;  // bits that padding should have left zero
  return out;
}

}  // namespace tessera

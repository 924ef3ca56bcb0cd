#include "stack/object/printable.h"

#include <cstdint>

namespace tessera::stack {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr char kUpperDigits[] = "0123456789ABCDEF";

struct Decoded {
  std::uint32_t point = 0;
  std::size_t length = 0;  // 0: not UTF-8 here
};

// One code point at the front of `bytes`; refuses overlong forms, surrogates and values past U+10FFFF.
Decoded decode(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return {};
  std::uint32_t point = first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    point = (point << 6) | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kLeast[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return {};
  return {point, length};
}

bool drives_the_terminal(std::uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || (point >= 0x202A && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069) || point == 0x200E || point == 0x200F;
}

void append_escape(std::string& out, char c, const char* lead, const char* digits) {
  const auto byte = static_cast<std::uint8_t>(c);
  out += lead;
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

}  // namespace

std::string printable(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Decoded decoded = decode(bytes);
    const std::size_t length = decoded.length == 0 ? 1 : decoded.length;
    if (decoded.length == 0 || drives_the_terminal(decoded.point)) {
      for (std::size_t i = 0; i < length; ++i) append_escape(out, bytes[i], "\\x", kHexDigits);
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return out;
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Decoded decoded = decode(bytes);
    if (decoded.length == 0) return false;
    bytes.remove_prefix(decoded.length);
  }
  return true;
}

std::string printable_text(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find_first_of("\n\t"), bytes.size());
    out += printable(bytes.substr(0, end));
    if (end < bytes.size()) out += bytes[end];
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return out;
}

std::string percent_encoded(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c > 0x20 && c < 0x7F && c != '%') {
      out += c;
    } else {
      append_escape(out, c, "%", kUpperDigits);
    }
  }
  return out;
}

}  // namespace tessera::stack

#include "base/json_string.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace tessera {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

std::optional<std::uint32_t> hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text.substr(0, 4)) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<std::uint32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      value = value * 16 + static_cast<std::uint32_t>((c | 0x20) - 'a') + 10;
    } else {
      return std::nullopt;
    }
  }
  return value;
}

struct Escape {
  std::size_t chars;  // that it takes
  char32_t point;
  bool is_sound = true;  // else `point` is the replacement character
};

// `text` begins with the u of an escape, after its backslash.
Escape read_code(std::string_view text) {
  const auto first = hex4(text.substr(1));
  if (!first) return {1, kReplacement, false};
  if (*first < 0xD800 || *first > 0xDFFF) return {5, *first};
  if (*first < 0xDC00 && text.substr(5, 2) == "\\u") {
    const auto second = hex4(text.substr(7));
    if (second && *second >= 0xDC00 && *second <= 0xDFFF)
      return {11, 0x10000 + ((*first - 0xD800) << 10) + (*second - 0xDC00)};
  }
  return {5, kReplacement, false};
}

// `text` is what follows a backslash.
Escape read_escape(std::string_view text) {
  if (text.empty()) return {0, kReplacement, false};
  switch (text[0]) {
    case '"':
    case '\\':
    case '/':
      return {1, static_cast<char32_t>(text[0])};
    case 'b':
      return {1, U'\b'};
    case 'f':
      return {1, U'\f'};
    case 'n':
      return {1, U'\n'};
    case 'r':
      return {1, U'\r'};
    case 't':
      return {1, U'\t'};
    case 'u':
      return read_code(text);
    default:
      return {0, kReplacement, false};  // what follows may be a character of several bytes: it stays
  }
}

// Whether all escapes were sound.
bool append(std::string& to, std::string_view raw) {
  bool is_sound = true;
  for (;;) {
    const std::size_t slash = std::min(raw.find('\\'), raw.size());
    to += raw.substr(0, slash);
    if (slash == raw.size()) return is_sound;
    raw.remove_prefix(slash + 1);
    const Escape escape = read_escape(raw);
    is_sound = is_sound && escape.is_sound;
    append_utf8(to, escape.point);
    raw.remove_prefix(escape.chars);
  }
}

}  // namespace

std::optional<std::string> json_unescaped(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  if (!append(out, raw)) return std::nullopt;
  return out;
}

void append_json_unescaped(std::string& to, std::string_view raw) { (void)append(to, raw); }

}  // namespace tessera

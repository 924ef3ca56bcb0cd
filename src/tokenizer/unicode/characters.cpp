#include "tokenizer/unicode/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {
namespace {

utf8proc_category_t category(char32_t point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(point));
}
char32_t upper(char32_t point) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(point)));
}
char32_t lower(char32_t point) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point)));
}
char32_t title(char32_t point) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(point)));
}

constexpr char32_t kSharpS = 0xDF;

}  // namespace

bool is_python_space(char32_t point) {
  if (point < 0x80) return (point >= 9 && point <= 13) || (point >= 28 && point <= 32);
  return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
         point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool is_python_printable(char32_t point) {
  if (point == ' ') return true;
  switch (category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_python_alpha(char32_t point) {
  const auto kind = category(point);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_python_digit(char32_t point) { return category(point) == UTF8PROC_CATEGORY_ND; }

bool is_word_character(char32_t point) {
  const auto kind = category(point);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NO) || kind == UTF8PROC_CATEGORY_PC;
}

bool has_case(char32_t point) {
  const auto kind = category(point);
  return kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT ||
         upper(point) != point || lower(point) != point;
}

std::string to_upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t point : utf8_to_points(text)) {
    if (point == kSharpS) {
      out += "SS";
    } else {
      append_utf8(out, upper(point));
    }
  }
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t point : utf8_to_points(text)) append_utf8(out, lower(point));
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_word = false;
  for (const char32_t point : utf8_to_points(text)) {
    if (point == kSharpS && !in_word) {
      out += "Ss";
    } else {
      append_utf8(out, in_word ? lower(point) : title(point));
    }
    in_word = has_case(point);
  }
  return out;
}

namespace {

// Marks on one character in canonical order: by their class, equal ones as they stand. utf8proc does this by
// swapping neighbours, which takes hours for a million marks in the wrong order.
void order_marks(std::vector<utf8proc_int32_t>& points) {
  const auto class_of = [](utf8proc_int32_t point) { return utf8proc_get_property(point)->combining_class; };
  for (std::size_t i = 0; i < points.size();) {
    if (class_of(points[i]) == 0) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < points.size() && class_of(points[end]) != 0) ++end;
    std::stable_sort(points.begin() + static_cast<std::ptrdiff_t>(i),
                     points.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](utf8proc_int32_t a, utf8proc_int32_t b) { return class_of(a) < class_of(b); });
    i = end;
  }
}

}  // namespace

std::string to_nfc(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  constexpr utf8proc_ssize_t kMostPoints = 4;  // in the canonical decomposition of one
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (const char32_t point : utf8_to_points(text)) {
    std::array<utf8proc_int32_t, kMostPoints> parts;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point), parts.data(),
                                                           kMostPoints, kCompose, nullptr);
    TS_CHECK(count >= 0 && count <= kMostPoints, static_cast<std::uint32_t>(point), count);
    points.insert(points.end(), parts.begin(), parts.begin() + count);
  }
  order_marks(points);
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), kCompose);
  TS_CHECK(count >= 0, utf8proc_errmsg(count));
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t point : std::span(points).first(static_cast<std::size_t>(count)))
    append_utf8(out, static_cast<char32_t>(point));
  return out;
}

}  // namespace tessera

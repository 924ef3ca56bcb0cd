#include "tokenizer/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "tokenizer/unicode/characters.h"

namespace tessera::jinja {
namespace {

std::string_view stripped(std::string_view text) {
  const auto blank = [](char c) {
    return static_cast<unsigned char>(c) < 0x80 && is_python_space(static_cast<char32_t>(c));
  };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Removes "_" between digits; nothing when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      plain += text[i];
      continue;
    }
    const auto is_digit = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1]))
      return std::nullopt;
  }
  return plain;
}

std::string special_float(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

}  // namespace

std::string int_text(Int value, int base) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  auto rest = negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits;
  for (; rest != 0; rest /= static_cast<unsigned>(base)) {
    digits += "0123456789abcdef"[static_cast<std::size_t>(rest % static_cast<unsigned>(base))];
  }
  if (negative) digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

std::string float_text(double value) {
  if (!std::isfinite(value)) return special_float(value);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view shortest(buffer, static_cast<std::size_t>(end - buffer));
  const bool negative = shortest.front() == '-';
  if (negative) shortest.remove_prefix(1);
  const std::size_t e = shortest.find('e');
  std::string digits(shortest.substr(0, 1));
  if (e > 2) digits += shortest.substr(2, e - 2);
  int exponent = 0;
  std::string_view exponent_text = shortest.substr(e + 1);
  if (exponent_text.front() == '+') exponent_text.remove_prefix(1);
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  std::string text;
  const auto length = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    text =
        digits.substr(0, 1) + (length > 1 ? "." + digits.substr(1) : "") + 'e' + (exponent < 0 ? '-' : '+');
    const std::string magnitude = std::to_string(std::abs(exponent));
    text += (magnitude.size() < 2 ? "0" : "") + magnitude;
  } else if (exponent < 0) {
    text = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  } else if (length <= exponent + 1) {
    text = digits + std::string(static_cast<std::size_t>(exponent + 1 - length), '0') + ".0";
  } else {
    const auto point = static_cast<std::size_t>(exponent + 1);
    text = digits.substr(0, point) + "." + digits.substr(point);
  }
  return (negative ? "-" : "") + text;
}

std::string fixed_text(double value, char kind, int precision) {
  if (!std::isfinite(value)) return special_float(value);
  const auto format = kind == 'f'   ? std::chars_format::fixed
                      : kind == 'e' ? std::chars_format::scientific
                                    : std::chars_format::general;
  std::string buffer(static_cast<std::size_t>(precision) + 340, '\0');
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision).ptr;
  buffer.resize(static_cast<std::size_t>(end - buffer.data()));
  return buffer;
}

std::optional<Int> parse_int(std::string_view text, int base) {
  text = stripped(text);
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const auto plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  Int value = 0;
  for (const char c : *plain) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : 99;
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, Int{base}, &value) || __builtin_add_overflow(value, Int{digit}, &value))
      return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  text = stripped(text);
  const auto plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  const char* begin = plain->data();
  const char* end = begin + plain->size();
  if (*begin == '+') {
    ++begin;
    if (begin == end || *begin == '-' || *begin == '+') return std::nullopt;
  }
  double value = 0;
  const auto [stop, failed] = std::from_chars(begin, end, value);
  if (stop != end || failed == std::errc::invalid_argument) return std::nullopt;
  if (failed == std::errc::result_out_of_range) {
    // from_chars leaves the value alone; Python gives 0 or infinity.
    const bool tiny = plain->find("e-") != std::string::npos || plain->find("E-") != std::string::npos;
    value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    if (*begin == '-') value = -value;
  }
  return value;
}

double round_half_even(double value, int digits) {
  if (!std::isfinite(value) || digits > 300) return value;
  if (digits >= 0) {
    // Correctly rounded decimal text, as CPython does it.
    const std::string text = fixed_text(value, 'f', digits);
    return parse_float(text).value_or(value);
  }
  const double unit = std::pow(10.0, -digits);
  const double scaled = value / unit;
  double rounded = std::round(scaled);
  if (std::fabs(scaled - std::trunc(scaled)) == 0.5) rounded = 2.0 * std::round(scaled / 2.0);
  return rounded * unit;
}

}  // namespace tessera::jinja

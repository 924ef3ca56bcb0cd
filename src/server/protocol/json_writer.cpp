#include "server/protocol/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace tessera {

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        out += "\\u00";
        out += kHex[c >> 4];
        out += kHex[c & 15];
    }
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

void append_json_string_or_null(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

namespace {

template <class Number>
void append_number(std::string& out, Number value) {
  std::array<char, 40> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), end.ptr);
}

template <class Float>
void append_float(std::string& out, Float value) {
  if (!std::isfinite(value)) value = Float{-9999};
  const std::size_t start = out.size();
  append_number(out, value);
  // "3" reads as an integer, which strict clients refuse for a float.
  if (std::string_view(out).substr(start).find_first_of(".e") == std::string_view::npos) out += ".0";
}

}  // namespace

void append_json_number(std::string& out, float value) { append_float(out, value); }
void append_json_number(std::string& out, double value) { append_float(out, value); }
void append_json_number(std::string& out, std::int64_t value) { append_number(out, value); }

void append_json_bytes(std::string& out, std::string_view bytes) {
  out += '[';
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, static_cast<int>(static_cast<unsigned char>(bytes[i])));
  }
  out += ']';
}

}  // namespace tessera

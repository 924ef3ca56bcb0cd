#include "checkpoint/json_cursor.h"

#include <limits>

namespace tessera {
namespace {

constexpr int kMaxDepth = 64;

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string quoted(char c) {
  if (c >= ' ' && c <= '~') return std::string("'") + c + "'";
  constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
}

std::optional<std::uint32_t> hex4(std::string_view text) {
  if (text.size() < 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : text.substr(0, 4)) {
    std::uint32_t digit = 0;
    if (is_digit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint32_t>(c - 'A' + 10);
    } else {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80u | ((code >> shift) & 0x3fu)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0u | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0u | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0u | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

bool JsonCursor::fail(std::string problem) {
  if (problem_.empty()) problem_ = "byte " + std::to_string(at_) + ": " + std::move(problem);
  return false;
}

void JsonCursor::skip_space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

bool JsonCursor::at_end() {
  skip_space();
  return at_ == text_.size();
}

bool JsonCursor::take_if(char token) {
  if (failed()) return false;
  skip_space();
  if (at_ >= text_.size() || text_[at_] != token) return false;
  ++at_;
  return true;
}

bool JsonCursor::take(char token, const char* expected) {
  if (take_if(token)) return true;
  return fail(std::string("expected ") + expected + ", found " +
              (at_ < text_.size() ? quoted(text_[at_]) : "the end"));
}

std::optional<JsonCursor::String> JsonCursor::take_string(const char* expected) {
  if (!take('"', expected)) return std::nullopt;
  const std::size_t start = at_;
  bool escaped = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      const std::string_view raw = text_.substr(start, at_ - start);
      ++at_;
      return String{.raw = raw, .escaped = escaped};
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      fail("control character (" + quoted(c) + ") inside a string");
      return std::nullopt;
    }
    if (c == '\\') {
      escaped = true;
      ++at_;
    }
  }
  at_ = start;
  fail("a string without its closing quote");
  return std::nullopt;
}

std::optional<std::int64_t> JsonCursor::take_integer(const char* expected) {
  if (failed()) return std::nullopt;
  skip_space();
  const std::size_t start = at_;
  std::int64_t value = 0;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, text_[at_] - '0', &value)) {
      fail("a number beyond 2^63");
      return std::nullopt;
    }
  }
  const bool leading_zero = at_ - start > 1 && text_[start] == '0';
  const bool goes_on = at_ < text_.size() &&
                       (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E' || text_[at_] == '-');
  if (at_ == start || leading_zero || goes_on) {
    fail(std::string("expected ") + expected + " (a whole number of at least 0)");
    return std::nullopt;
  }
  return value;
}

bool JsonCursor::skip_value(int depth) {
  if (failed()) return false;
  if (depth > kMaxDepth) return fail("more than 64 levels of nesting");
  skip_space();
  if (at_ >= text_.size()) return fail("expected a value, found the end");
  const char c = text_[at_];
  if (c == '"') return take_string("a string").has_value();
  if (c == '{' || c == '[') {
    const char close = c == '{' ? '}' : ']';
    ++at_;
    if (take_if(close)) return true;
    do {
      if (c == '{' && !(take_string("a key") && take(':', "':' after a key"))) return false;
      if (!skip_value(depth + 1)) return false;
    } while (take_if(','));
    return take(close, c == '{' ? "',' or '}'" : "',' or ']'");
  }
  const std::size_t start = at_;
  while (at_ < text_.size() &&
         (is_digit(text_[at_]) || (text_[at_] >= 'a' && text_[at_] <= 'z') || text_[at_] == '-' ||
          text_[at_] == '+' || text_[at_] == '.' || text_[at_] == 'E')) {
    ++at_;
  }
  return at_ > start || fail("expected a value, found " + quoted(c));
}

std::optional<std::string> unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    if (++i == raw.size()) return std::nullopt;
    switch (raw[i]) {
      case '"':
      case '\\':
      case '/':
        out += raw[i];
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        auto code = hex4(raw.substr(i + 1));
        if (!code) return std::nullopt;
        i += 4;
        if (*code >= 0xdc00 && *code <= 0xdfff) return std::nullopt;  // a low surrogate alone
        if (*code >= 0xd800 && *code <= 0xdbff) {
          if (raw.substr(i + 1, 2) != "\\u") return std::nullopt;
          const auto low = hex4(raw.substr(i + 3));
          if (!low || *low < 0xdc00 || *low > 0xdfff) return std::nullopt;
          i += 6;
          code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
        }
        append_utf8(out, *code);
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return out;
}

}  // namespace tessera

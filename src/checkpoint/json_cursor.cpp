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

}  // namespace tessera

// A place in a text, and the few moves that all tokenisers share.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::stack {

// Letters, digits, '_' and every byte of a multi-byte character.
inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  // The byte `back` places in front of this one; '\1' where there is none.
  char before(std::size_t back) const { return back <= at_ ? text_[at_ - back] : '\1'; }
  bool sees(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  void skip(std::size_t count = 1) { at_ = at_ + count < text_.size() ? at_ + count : text_.size(); }
  std::size_t position() const { return at_; }
  void move_to(std::size_t position) { at_ = position; }
  std::string_view since(std::size_t start) const { return text_.substr(start, at_ - start); }
  std::string_view rest() const { return text_.substr(at_); }

  // "\n", "\r\n" or a lone "\r": its length, 0 when there is none here.
  std::size_t line_break() const {
    if (peek() == '\n') return 1;
    if (peek() != '\r') return 0;
    return peek(1) == '\n' ? 2 : 1;
  }
  // The rest of the line, without its break.
  std::string_view take_line() {
    const std::size_t start = at_;
    while (!at_end() && line_break() == 0) ++at_;
    return since(start);
  }
  // From an opening quote past its closing one; a backslash takes the next character. False at the end of the
  // text, or of the line when `one_line`.
  bool skip_quoted(char quote, bool escapes, bool one_line) {
    ++at_;
    while (!at_end()) {
      const char c = peek();
      if (escapes && c == '\\') {
        skip(2);
      } else if (c == quote) {
        ++at_;
        return true;
      } else if (one_line && line_break() > 0) {
        return false;
      } else {
        ++at_;
      }
    }
    return false;
  }
  // The longest of `operators` (longest first) that stands here, or one character.
  template <std::size_t N>
  std::string_view take_operator(const std::array<std::string_view, N>& operators) {
    const std::size_t start = at_;
    for (const std::string_view candidate : operators) {
      if (sees(candidate)) {
        skip(candidate.size());
        return since(start);
      }
    }
    skip();
    return since(start);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tessera::stack

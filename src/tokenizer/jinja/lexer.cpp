#include "tokenizer/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "tokenizer/jinja/numbers.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

std::string with_plain_line_ends(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_space_at(std::string_view text, std::size_t at) {
  return is_python_space(read_utf8(text.substr(at)).point);
}

std::size_t skip_space(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space_at(text, at))
    at += static_cast<std::size_t>(utf8_bytes_from_lead(text[at]));
  return at;
}

std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!is_space_at(text, last)) break;
    text = text.substr(0, last);
  }
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source)
      : source_(with_plain_line_ends(repair_utf8(source))), in_(source_) {}

  std::vector<Token> run() {
    try {
      while (at_ < in_.size()) outside();
      put(TokenKind::kEnd);
    } catch (Failure& failure) {
      if (failure.line == 0) failure.line = line_;
      throw;
    }
    return std::move(tokens_);
  }

 private:
  void put(TokenKind kind, std::string text = {}, Value number = None{}) {
    tokens_.push_back({kind, std::move(text), std::move(number), line_});
  }
  // Steps over source text, counting lines, and notes whether the next character begins a line.
  void advance_to(std::size_t at) {
    if (at == at_) return;
    line_ += static_cast<int>(std::ranges::count(in_.substr(at_, at - at_), '\n'));
    line_starts_ = in_[at - 1] == '\n';
    at_ = at;
  }
  bool follows(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  // Text up to the next tag, then the tag.
  void outside() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = in_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 == in_.size()) {
        tag = in_.size();
        break;
      }
      if (in_[tag + 1] == '{' || in_[tag + 1] == '%' || in_[tag + 1] == '#') break;
    }
    const std::string_view text = in_.substr(at_, tag - at_);
    if (tag == in_.size()) {
      if (!text.empty()) put(TokenKind::kText, std::string(text));
      advance_to(tag);
      return;
    }
    const char kind = in_[tag + 1];
    char sign = tag + 2 < in_.size() ? in_[tag + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    const std::string_view kept = before_tag(text, sign, kind == '{');
    if (!kept.empty()) put(TokenKind::kText, std::string(kept));
    advance_to(tag + 2 + (sign != '\0' ? 1 : 0));
    if (kind == '#') {
      comment();
    } else if (kind == '{') {
      put(TokenKind::kPrintBegin);
      inside("}}", TokenKind::kPrintEnd);
    } else if (!raw()) {
      put(TokenKind::kBlockBegin);
      inside("%}", TokenKind::kBlockEnd);
    }
  }

  // What stays of the text in front of a tag.
  std::string_view before_tag(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') return without_trailing_space(text);
    if (sign == '+' || is_print) return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (line == 0 && !line_starts_) return text;
    return without_trailing_space(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // Behind the two characters that close a tag.
  void after_tag(char sign, bool trims_newline) {
    if (sign == '-') {
      advance_to(skip_space(in_, at_));
    } else if (sign != '+' && trims_newline && follows("\n")) {
      advance_to(at_ + 1);
    }
  }

  void comment() {
    const std::size_t end = in_.find("#}", at_);
    if (end == std::string_view::npos) fail("A comment is not closed by #}.");
    const char before = end > at_ ? in_[end - 1] : '\0';
    advance_to(end + 2);
    after_tag(before, true);
  }

  // At the inside of {% ... : takes `raw %} ... {% endraw %}` whole, if it is one.
  bool raw() {
    std::size_t at = skip_space(in_, at_);
    if (!in_.substr(at).starts_with("raw")) return false;
    at = skip_space(in_, at + 3);
    const bool strips = in_.substr(at).starts_with("-%}");
    if (!strips && !in_.substr(at).starts_with("%}")) return false;
    advance_to(at + (strips ? 3 : 2));
    if (strips) advance_to(skip_space(in_, at_));
    for (std::size_t end = at_;; ++end) {
      end = in_.find("{%", end);
      if (end == std::string_view::npos) fail("{% raw %} is not closed by {% endraw %}.");
      std::size_t inner = end + 2;
      char sign = inner < in_.size() && (in_[inner] == '-' || in_[inner] == '+') ? in_[inner++] : '\0';
      inner = skip_space(in_, inner);
      if (!in_.substr(inner).starts_with("endraw")) continue;
      inner = skip_space(in_, inner + 6);
      const char close = inner < in_.size() && (in_[inner] == '-' || in_[inner] == '+') ? in_[inner++] : '\0';
      if (!in_.substr(inner).starts_with("%}")) continue;
      const std::string_view kept = before_tag(in_.substr(at_, end - at_), sign, false);
      if (!kept.empty()) put(TokenKind::kText, std::string(kept));
      advance_to(inner + 2);
      after_tag(close, true);
      return true;
    }
  }

  // Tokens up to the closing characters, which count only outside of brackets.
  void inside(std::string_view closing, TokenKind end_kind) {
    const bool is_block = end_kind == TokenKind::kBlockEnd;
    std::vector<char> open;
    for (;;) {
      advance_to(skip_space(in_, at_));
      if (at_ >= in_.size()) fail("The template ends inside a tag; expected " + std::string(closing) + ".");
      if (open.empty()) {
        const bool signed_end =
            (in_[at_] == '-' || (in_[at_] == '+' && is_block)) && in_.substr(at_ + 1).starts_with(closing);
        if (signed_end || follows(closing)) {
          const char sign = signed_end ? in_[at_] : '\0';
          put(end_kind);
          advance_to(at_ + closing.size() + (signed_end ? 1 : 0));
          after_tag(sign, is_block);
          return;
        }
      }
      token(open);
    }
  }

  void token(std::vector<char>& open) {
    const char c = in_[at_];
    if (c == '\'' || c == '"') return string(c);
    if (is_digit(c)) return number();
    const char32_t point = read_utf8(in_.substr(at_)).point;
    if (point == '_' || is_python_alpha(point)) return name();
    static constexpr std::array<std::string_view, 7> kPairs = {"//", "**", "==", "!=", ">=", "<=", "  "};
    std::size_t length = 1;
    for (const std::string_view pair : kPairs) {
      if (follows(pair)) length = 2;
    }
    if (length == 1 && std::string_view("+-/*%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      fail("Unexpected character " +
           std::string(in_.substr(at_, static_cast<std::size_t>(utf8_bytes_from_lead(c)))) + " in a tag.");
    }
    if (c == '(') open.push_back(')');
    if (c == '[') open.push_back(']');
    if (c == '{') open.push_back('}');
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail(std::string("Unexpected ") + c + ".");
      open.pop_back();
    }
    put(TokenKind::kOperator, std::string(in_.substr(at_, length)));
    advance_to(at_ + length);
  }

  void name() {
    std::size_t end = at_;
    while (end < in_.size()) {
      const Utf8Prefix character = read_utf8(in_.substr(end));
      if (!is_word_character(character.point)) break;
      end += static_cast<std::size_t>(character.bytes);
    }
    put(TokenKind::kName, std::string(in_.substr(at_, end - at_)));
    advance_to(end);
  }

  void number() {
    std::size_t end = at_;
    const auto digits = [&] {
      while (end < in_.size() &&
             (is_digit(in_[end]) || (in_[end] == '_' && end + 1 < in_.size() && is_digit(in_[end + 1]))))
        ++end;
    };
    if (in_[at_] == '0' && at_ + 1 < in_.size() &&
        std::string_view("xXoObB").find(in_[at_ + 1]) != std::string_view::npos) {
      const char kind = static_cast<char>(in_[at_ + 1] | 0x20);
      end = at_ + 2;
      while (end < in_.size() && (is_digit(in_[end]) || (in_[end] | 0x20) >= 'a')) {
        if ((in_[end] | 0x20) > 'z' && in_[end] != '_') break;
        ++end;
      }
      const auto value = parse_int(in_.substr(at_ + 2, end - at_ - 2), kind == 'x'   ? 16
                                                                       : kind == 'o' ? 8
                                                                                     : 2);
      if (!value) fail("Not a number: " + std::string(in_.substr(at_, end - at_)) + ".");
      put(TokenKind::kInteger, std::string(in_.substr(at_, end - at_)), *value);
      return advance_to(end);
    }
    digits();
    bool is_float = false;
    // A dot right after a dot is an attribute of an attribute, as in x.0.1.
    const bool after_dot = at_ > 0 && in_[at_ - 1] == '.';
    if (!after_dot && end + 1 < in_.size() && in_[end] == '.' && is_digit(in_[end + 1])) {
      is_float = true;
      ++end;
      digits();
    }
    if (!after_dot && end < in_.size() && (in_[end] == 'e' || in_[end] == 'E')) {
      const std::size_t mantissa = end++;
      if (end < in_.size() && (in_[end] == '+' || in_[end] == '-')) ++end;
      if (end < in_.size() && is_digit(in_[end])) {
        is_float = true;
        digits();
      } else {
        end = mantissa;
      }
    }
    const std::string text(in_.substr(at_, end - at_));
    if (is_float) {
      put(TokenKind::kFloat, text, parse_float(text).value());
    } else {
      const auto value = parse_int(text);
      if (!value) fail("The number " + text + " is too large.", ErrorKind::kTooLarge);
      put(TokenKind::kInteger, text, *value);
    }
    advance_to(end);
  }

  void string(char quote) {
    std::string text;
    std::size_t at = at_ + 1;
    for (;; ++at) {
      if (at >= in_.size()) fail("A string is not closed.");
      if (in_[at] == quote) break;
      if (in_[at] != '\\') {
        text += in_[at];
        continue;
      }
      if (++at >= in_.size()) fail("A string is not closed.");
      at = escape(at, text);
    }
    put(TokenKind::kString, std::move(text));
    advance_to(at + 1);
  }

  // `at` is behind the backslash; returns the place of the last character used.
  std::size_t escape(std::size_t at, std::string& text) const {
    static constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
    const char c = in_[at];
    if (const std::size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      text += kTo[simple];
      return at;
    }
    if (c == '\n') return at;
    if (c >= '0' && c <= '7') {
      char32_t point = 0;
      std::size_t end = at;
      for (; end < in_.size() && end < at + 3 && in_[end] >= '0' && in_[end] <= '7'; ++end) {
        point = point * 8 + static_cast<char32_t>(in_[end] - '0');
      }
      append_utf8(text, point);
      return end - 1;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      text += '\\';
      text += c;
      return at;
    }
    const auto point = parse_int(in_.substr(std::min(at + 1, in_.size()), digits), 16);
    if (!point || at + digits >= in_.size() || *point > 0x10FFFF || (*point >= 0xD800 && *point < 0xE000)) {
      fail("A \\" + std::string(1, c) + " escape wants " + std::to_string(digits) +
           " hexadecimal digits of a character.");
    }
    append_utf8(text, static_cast<char32_t>(*point));
    return at + digits;
  }

  const std::string source_;
  const std::string_view in_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace tessera::jinja

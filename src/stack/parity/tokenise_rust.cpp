// Rust: no white space carries meaning; comments nest; doc comments are attributes and therefore tokens.
#include <array>

#include "stack/parity/cursor.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {
namespace {

constexpr std::array<std::string_view, 25> kOperators = {
    "<<=", ">>=", "...", "..=", "::", "->", "=>", "==", "!=", "<=", ">=", "&&", "||",
    "+=",  "-=",  "*=",  "/=",  "%=", "^=", "&=", "|=", "<<", ">>", "..", "<-"};

class Rust {
 public:
  explicit Rust(std::string_view text) : at_(text) {}

  std::optional<TokenStream> run() {
    while (!at_.at_end()) {
      const char c = at_.peek();
      if (is_blank(c) || at_.line_break() > 0 || c == '\f') {
        at_.skip();
      } else if (at_.sees("//")) {
        line_comment();
      } else if (at_.sees("/*")) {
        if (!block_comment()) return std::nullopt;
      } else if (!token(c)) {
        return std::nullopt;
      }
    }
    return std::move(stream_);
  }

 private:
  void line_comment() {
    const std::string_view line = at_.take_line();
    const bool doc = (line.starts_with("///") && !line.starts_with("////")) || line.starts_with("//!");
    doc ? stream_.add(line) : stream_.add_comment(line);
  }

  bool block_comment() {
    const std::size_t start = at_.position();
    int depth = 0;
    do {
      if (at_.at_end()) return false;
      if (at_.sees("/*")) {
        ++depth;
        at_.skip(2);
      } else if (at_.sees("*/")) {
        --depth;
        at_.skip(2);
      } else {
        at_.skip();
      }
    } while (depth > 0);
    const std::string_view text = at_.since(start);
    const bool doc =
        (text.starts_with("/**") && text.size() > 4 && text[3] != '*') || text.starts_with("/*!");
    doc ? stream_.add(text) : stream_.add_comment(text);
    return true;
  }

  bool token(char c) {
    const std::size_t start = at_.position();
    if (c == '"') {
      if (!at_.skip_quoted('"', true, false)) return false;
    } else if (c == '\'') {
      quote_or_lifetime();
    } else if (is_word(c)) {
      while (is_word(at_.peek())) at_.skip();
      const std::string_view word = at_.since(start);
      const bool may_prefix = word == "r" || word == "b" || word == "br" || word == "c" || word == "cr";
      if (may_prefix && word.ends_with('r') && (at_.peek() == '"' || at_.peek() == '#')) {
        if (!raw_string()) return false;
      } else if (may_prefix && at_.peek() == '"') {
        if (!at_.skip_quoted('"', true, false)) return false;
      } else if (word == "b" && at_.peek() == '\'') {
        if (!at_.skip_quoted('\'', true, true)) return false;
      } else if (is_digit(c)) {
        // 1.5 and 1e-5 are one number, 1..5 is a range
        while ((at_.peek() == '.' && is_digit(at_.peek(1))) || is_word(at_.peek()) ||
               ((at_.peek() == '-' || at_.peek() == '+') &&
                (at_.since(start).back() == 'e' || at_.since(start).back() == 'E') &&
                !at_.since(start).starts_with("0x") && is_digit(at_.peek(1)))) {
          at_.skip();
        }
      }
    } else {
      stream_.add(at_.take_operator(kOperators));
      return true;
    }
    while (is_word(at_.peek())) at_.skip();  // a suffix
    stream_.add(at_.since(start));
    return true;
  }

  // 'a' is a character, 'a a lifetime.
  void quote_or_lifetime() {
    if (at_.peek(1) == '\\') {
      at_.skip_quoted('\'', true, true);
      return;
    }
    at_.skip();
    const std::size_t start = at_.position();
    at_.skip();
    while ((static_cast<unsigned char>(at_.peek()) & 0xC0) == 0x80) at_.skip();  // the rest of one character
    if (at_.peek() == '\'') {
      at_.skip();
    } else {
      at_.move_to(start);
    }
  }

  bool raw_string() {
    std::size_t hashes = 0;
    while (at_.peek(hashes) == '#') ++hashes;
    if (at_.peek(hashes) != '"') return true;  // r#keyword
    const std::string close = '"' + std::string(hashes, '#');
    at_.skip(hashes + 1);
    const std::size_t end = at_.rest().find(close);
    if (end == std::string_view::npos) return false;
    at_.skip(end + close.size());
    return true;
  }

  Cursor at_;
  TokenStream stream_;
};

}  // namespace

std::optional<TokenStream> tokenise_rust(std::string_view text) { return Rust(text).run(); }

}  // namespace tessera::stack

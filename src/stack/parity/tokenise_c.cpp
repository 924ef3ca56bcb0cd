// C, C++ and CUDA: a newline ends a preprocessor line and nothing else; raw strings are verbatim; a backslash
// at a line's end joins lines before anything else is seen, in // comments too.
#include <array>

#include "stack/parity/cursor.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {
namespace {

constexpr std::array<std::string_view, 27> kOperators = {
    "<=>", "...", "<<=", ">>=", "->*", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
    "&&",  "||",  "+=",  "-=",  "*=",  "/=", "%=", "&=", "|=", "^=", "::", "##", ".*"};

bool is_word_or_dollar(char c) { return is_word(c) || c == '$'; }

class CFamily {
 public:
  explicit CFamily(std::string_view text) : at_(text) {}

  std::optional<TokenStream> run() {
    while (true) {
      if (!join_lines()) return std::nullopt;
      if (at_.at_end()) break;
      const char c = at_.peek();
      if (const std::size_t length = at_.line_break(); length > 0) {
        end_of_line();
        at_.skip(length);
        ++line_;
      } else if (is_blank(c) || c == '\f' || c == '\v') {
        at_.skip();
      } else if (at_.sees("//") || at_.sees("/*")) {
        if (!comment()) return std::nullopt;
      } else if (c == '#' && line_is_empty_) {
        at_.skip();
        stream_.add(std::string("#"));
        in_directive_ = true;
        line_is_empty_ = false;
        if (!directive()) return std::nullopt;
      } else {
        line_is_empty_ = false;
        if (!token(c)) return std::nullopt;
      }
    }
    end_of_line();
    return std::move(stream_);
  }

 private:
  // Skips backslash-newlines. False for one with blanks in between, on which compilers disagree.
  bool join_lines() {
    while (at_.peek() == '\\') {
      std::size_t blanks = 1;
      while (is_blank(at_.peek(blanks))) ++blanks;
      const std::size_t before = at_.position();
      at_.skip(blanks);
      const std::size_t length = at_.line_break();
      if (length == 0) {
        at_.move_to(before);
        return true;
      }
      if (blanks > 1) return false;
      at_.skip(length);
      ++line_;
    }
    return true;
  }

  void end_of_line() {
    if (in_directive_) stream_.add(kNewline);
    in_directive_ = false;
    line_is_empty_ = true;
  }

  bool comment() {
    const bool block = at_.peek(1) == '*';
    std::string text(at_.rest().substr(0, 2));
    at_.skip(2);
    while (true) {
      if (!join_lines()) return false;
      if (at_.at_end()) break;
      if (block && at_.sees("*/")) {
        at_.skip(2);
        stream_.add_comment(text + "*/");
        return true;
      }
      const std::size_t length = at_.line_break();
      if (length > 0) {
        if (!block) break;
        ++line_;
        text += '\n';
        at_.skip(length);
        continue;
      }
      text += at_.peek();
      at_.skip();
    }
    if (block) return false;  // unterminated
    stream_.add_comment(text);
    return true;
  }

  std::string take_word() {
    std::string word;
    while (join_lines() && is_word_or_dollar(at_.peek())) {
      word += at_.peek();
      at_.skip();
    }
    return word;
  }

  // After the '#'. Handles the three directives whose white space or text means something.
  bool directive() {
    while (true) {
      if (!join_lines()) return false;
      if (is_blank(at_.peek())) {
        at_.skip();
      } else if (at_.sees("/*")) {
        if (!comment()) return false;
      } else {
        break;
      }
    }
    const std::string name = take_word();
    stream_.add(name);
    if (name == "error" || name == "warning") {  // prose, with apostrophes
      stream_.add(at_.take_line());
    } else if (name == "include" || name == "include_next") {
      while (is_blank(at_.peek())) at_.skip();
      if (at_.peek() == '<') {
        const std::size_t start = at_.position();
        while (!at_.at_end() && at_.peek() != '>' && at_.line_break() == 0) at_.skip();
        if (at_.peek() != '>') return false;
        at_.skip();
        stream_.add(at_.since(start));
      }
    } else if (name == "define") {
      while (join_lines() && is_blank(at_.peek())) at_.skip();
      stream_.add(take_word());
      // f(x) takes parameters, f (x) is replaced by "(x)".
      if (join_lines() && at_.peek() == '(') stream_.add(std::string("\1takes parameters"));
    }
    return true;
  }

  bool token(char c) {
    if (c == '"' || c == '\'') return literal("");
    if (is_digit(c) || (c == '.' && is_digit(at_.peek(1)))) {
      number();
      return true;
    }
    if (is_word_or_dollar(c)) {
      std::string word = take_word();
      if (at_.peek() == '"' &&
          (word == "R" || word == "LR" || word == "uR" || word == "UR" || word == "u8R")) {
        return raw_string(std::move(word));
      }
      if ((at_.peek() == '"' || at_.peek() == '\'') &&
          (word == "L" || word == "u" || word == "U" || word == "u8")) {
        return literal(std::move(word));
      }
      if (word == "__LINE__") word += std::to_string(line_);  // moving it changes it
      stream_.add(std::move(word));
      return true;
    }
    stream_.add(at_.take_operator(kOperators));
    return true;
  }

  // With its prefix before and a user-defined suffix behind it, both glued on.
  bool literal(std::string text) {
    const char quote = at_.peek();
    text += quote;
    at_.skip();
    while (true) {
      if (!join_lines()) return false;
      if (at_.at_end() || at_.line_break() > 0) return false;
      const char c = at_.peek();
      text += c;
      at_.skip();
      if (c == quote) break;
      if (c == '\\') {
        if (at_.at_end() || at_.line_break() > 0) return false;
        text += at_.peek();
        at_.skip();
      }
    }
    text += take_word();
    stream_.add(std::move(text));
    return true;
  }

  bool raw_string(std::string prefix) {
    const std::size_t start = at_.position();
    at_.skip();
    const std::size_t open = at_.rest().find('(');
    if (open == std::string_view::npos || open > 16) return false;
    const std::string close = ')' + std::string(at_.rest().substr(0, open)) + '"';
    const std::size_t end = at_.rest().find(close, open);
    if (end == std::string_view::npos) return false;
    for (const char c : at_.rest().substr(0, end)) line_ += c == '\n' ? 1 : 0;
    at_.skip(end + close.size());
    stream_.add(prefix + std::string(at_.since(start)) + take_word());
    return true;
  }

  void number() {
    std::string text;
    while (join_lines()) {
      const char c = at_.peek();
      const bool separator = c == '\'' && is_word(at_.peek(1));
      const bool sign = (c == '+' || c == '-') && !text.empty() &&
                        std::string_view("eEpP").find(text.back()) != std::string_view::npos &&
                        is_digit(at_.peek(1));
      if (at_.at_end() || !(is_word(c) || c == '.' || separator || sign)) break;
      text += c;
      at_.skip();
    }
    stream_.add(std::move(text));
  }

  Cursor at_;
  TokenStream stream_;
  bool in_directive_ = false;
  bool line_is_empty_ = true;  // nothing but blanks and comments so far
  long line_ = 1;
};

}  // namespace

std::optional<TokenStream> tokenise_c(std::string_view text) { return CFamily(text).run(); }

}  // namespace tessera::stack

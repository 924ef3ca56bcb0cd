// JavaScript and TypeScript: line breaks are kept, because they may end statements; templates and regular
// expressions are verbatim.
#include <array>

#include "stack/parity/cursor.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {
namespace {

constexpr std::array<std::string_view, 33> kOperators = {">>>=",
                                                         "...",
                                                         "===",
                                                         "!==",
                                                         "**=",
                                                         "<<=",
                                                         ">>=",
                                                         ">>>",
                                                         "&&=",
                                                         "||=",
                                                         "?"
                                                         "?=",
                                                         "=>",
                                                         "==",
                                                         "!=",
                                                         "<=",
                                                         ">=",
                                                         "&&",
                                                         "||",
                                                         "??",
                                                         "?.",
                                                         "++",
                                                         "--",
                                                         "+=",
                                                         "-=",
                                                         "*=",
                                                         "/=",
                                                         "%=",
                                                         "&=",
                                                         "|=",
                                                         "^=",
                                                         "<<",
                                                         ">>",
                                                         "**"};
constexpr std::array<std::string_view, 13> kBeforeRegex = {
    "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "yield", "await"};

class Script {
 public:
  explicit Script(std::string_view text) : at_(text) {}

  std::optional<TokenStream> run() {
    if (at_.sees("#!")) stream_.add_comment(at_.take_line());
    while (!at_.at_end()) {
      const char c = at_.peek();
      if (const std::size_t length = at_.line_break(); length > 0) {
        at_.skip(length);
        stream_.add_newline();
      } else if (is_blank(c) || c == '\f' || c == '\v') {
        at_.skip();
      } else if (at_.sees("//")) {
        stream_.add_comment(at_.take_line());
      } else if (at_.sees("/*")) {
        const std::size_t start = at_.position();
        const std::size_t end = at_.rest().find("*/", 2);
        if (end == std::string_view::npos) return std::nullopt;
        at_.skip(end + 2);
        const std::string_view text = at_.since(start);
        if (text.find_first_of("\r\n") != std::string_view::npos)
          stream_.add_newline();  // counts as a line break
        stream_.add_comment(text);
      } else if (!token(c)) {
        return std::nullopt;
      }
    }
    return std::move(stream_);
  }

 private:
  bool token(char c) {
    const std::size_t start = at_.position();
    if (c == '"' || c == '\'') {
      if (!at_.skip_quoted(c, true, true)) return false;
    } else if (c == '`') {
      if (!skip_template(0)) return false;
    } else if (is_word(c) || c == '$' || (c == '.' && is_digit(at_.peek(1)))) {
      const bool number = !is_word(c) || is_digit(c);
      while (is_word(at_.peek()) || at_.peek() == '$' || (number && at_.peek() == '.') ||
             (number && (at_.peek() == '-' || at_.peek() == '+') &&
              (at_.since(start).back() == 'e' || at_.since(start).back() == 'E'))) {
        at_.skip();
      }
    } else if (c == '/') {
      if (!slash()) return false;
    } else {
      stream_.add(at_.take_operator(kOperators));
      remember();
      return true;
    }
    stream_.add(at_.since(start));
    remember();
    return true;
  }

  void remember() { last_ = stream_.tokens().back().text; }

  // A division or a regular expression, told apart by the token before. After ')' or '}' both are possible:
  // then a second slash on the line makes us give up.
  bool slash() {
    const char before = last_.empty() ? '\0' : last_.back();
    const bool word = is_word(before) || before == '$';
    bool keyword = false;
    for (const std::string_view candidate : kBeforeRegex) keyword = keyword || last_ == candidate;
    const bool value =
        (word && !keyword) || before == ']' || before == '"' || before == '\'' || before == '`';
    if (before == ')' || before == '}') {
      const std::string_view line = at_.rest().substr(1, at_.rest().find('\n') - 1);
      if (line.find('/') != std::string_view::npos) return false;
    } else if (!value) {
      return skip_regex();
    }
    at_.skip(at_.peek(1) == '=' ? 2 : 1);
    return true;
  }

  bool skip_regex() {
    bool in_set = false;
    for (at_.skip(); !at_.at_end() && at_.line_break() == 0;) {
      const char c = at_.peek();
      at_.skip(c == '\\' ? 2 : 1);
      if (c == '[') in_set = true;
      if (c == ']') in_set = false;
      if (c == '/' && !in_set) {
        while (is_word(at_.peek())) at_.skip();
        return true;
      }
    }
    return false;
  }

  bool skip_template(int nesting) {
    if (nesting > 20) return false;
    at_.skip();
    while (!at_.at_end()) {
      const char c = at_.peek();
      if (c == '\\') {
        at_.skip(2);
      } else if (c == '`') {
        at_.skip();
        return true;
      } else if (at_.sees("${")) {
        at_.skip(2);
        if (!skip_expression(nesting)) return false;
      } else {
        at_.skip();
      }
    }
    return false;
  }

  // To the brace that closes "${". Whatever could hide a brace from us (a regular expression, a comment)
  // makes us give up.
  bool skip_expression(int nesting) {
    int depth = 1;
    while (!at_.at_end()) {
      const char c = at_.peek();
      if (c == '"' || c == '\'') {
        if (!at_.skip_quoted(c, true, true)) return false;
        continue;
      }
      if (c == '`') {
        if (!skip_template(nesting + 1)) return false;
        continue;
      }
      if (c == '/') return false;
      at_.skip();
      if (c == '{') ++depth;
      if (c == '}' && --depth == 0) return true;
    }
    return false;
  }

  Cursor at_;
  TokenStream stream_;
  std::string last_;  // the last token that is code
};

}  // namespace

std::optional<TokenStream> tokenise_script(std::string_view text) { return Script(text).run(); }

}  // namespace tessera::stack

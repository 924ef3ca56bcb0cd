// Python: indentation and line ends carry meaning outside brackets; docstrings are strings, and strings are
// kept byte for byte.
#include <algorithm>
#include <array>

#include "stack/parity/cursor.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {
namespace {

constexpr std::array<std::string_view, 25> kOperators = {
    "**=", "//=", ">>=", "<<=", "...", "!=", "%=", "&=", "**", "*=", "+=", "-=", "->",
    "//",  "/=",  ":=",  "<<",  "<=",  "<>", "==", ">=", ">>", "@=", "^=", "|="};

class Python {
 public:
  explicit Python(std::string_view text) : at_(text) {}

  std::optional<TokenStream> run() {
    while (!at_.at_end()) {
      if (line_begins_ && depth_ == 0 && !indentation()) return std::nullopt;
      if (at_.at_end()) break;
      const char c = at_.peek();
      if (const std::size_t length = at_.line_break(); length > 0) {
        end_of_line(length);
      } else if (is_blank(c) || c == '\f') {
        at_.skip();
      } else if (c == '#') {
        stream_.add_comment(at_.take_line());
      } else if (c == '\\') {
        at_.skip();
        const std::size_t joined = at_.line_break();
        if (joined == 0) return std::nullopt;
        at_.skip(joined);
      } else if (!token(c)) {
        return std::nullopt;
      }
    }
    if (depth_ != 0) return std::nullopt;
    if (line_has_tokens_) stream_.add(kNewline);
    for (std::size_t i = 1; i < columns_.size(); ++i) stream_.add(kDedent);
    return std::move(stream_);
  }

 private:
  struct Column {
    int wide;    // with tabs to multiples of 8
    int narrow;  // with tabs as 1; the two must agree in every comparison, as in Python itself
  };

  // At the beginning of a logical line. False when tabs and blanks are mixed so that Python would refuse.
  bool indentation() {
    line_begins_ = false;
    Column here{0, 0};
    for (;; at_.skip()) {
      const char c = at_.peek();
      if (c == ' ') {
        ++here.wide;
        ++here.narrow;
      } else if (c == '\t') {
        here.wide = (here.wide / 8 + 1) * 8;
        ++here.narrow;
      } else if (c == '\f') {
        here = {0, 0};
      } else {
        break;
      }
    }
    if (at_.at_end() || at_.line_break() > 0 || at_.peek() == '#') return true;  // no logical line
    const Column top = columns_.back();
    if (here.wide == top.wide) return here.narrow == top.narrow;
    if (here.wide > top.wide) {
      if (here.narrow <= top.narrow) return false;
      columns_.push_back(here);
      stream_.add(kIndent);
      return true;
    }
    while (here.wide < columns_.back().wide) {
      columns_.pop_back();
      stream_.add(kDedent);
    }
    return here.wide == columns_.back().wide && here.narrow == columns_.back().narrow;
  }

  void end_of_line(std::size_t length) {
    at_.skip(length);
    if (depth_ > 0) return;
    if (line_has_tokens_) stream_.add(kNewline);
    line_has_tokens_ = false;
    line_begins_ = true;
  }

  bool token(char c) {
    line_has_tokens_ = true;
    const std::size_t start = at_.position();
    if (c == '"' || c == '\'') return string(start, false);
    if (is_digit(c) || (c == '.' && is_digit(at_.peek(1)))) {
      number();
    } else if (is_word(c)) {
      while (is_word(at_.peek())) at_.skip();
      const std::string_view word = at_.since(start);
      if ((at_.peek() == '"' || at_.peek() == '\'') && word.size() <= 2 &&
          word.find_first_not_of("rRbBuUfFtT") == std::string_view::npos) {
        return string(start, word.find_first_of("fFtT") != std::string_view::npos);
      }
    } else {
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if (c == ')' || c == ']' || c == '}') {
        if (--depth_ < 0) return false;
      }
      stream_.add(at_.take_operator(kOperators));
      return true;
    }
    stream_.add(at_.since(start));
    return true;
  }

  void number() {
    const bool hex = at_.peek() == '0' && (at_.peek(1) == 'x' || at_.peek(1) == 'X');
    while (is_word(at_.peek()) || at_.peek() == '.') {
      const char c = at_.peek();
      at_.skip();
      if (!hex && (c == 'e' || c == 'E') && (at_.peek() == '+' || at_.peek() == '-') && is_digit(at_.peek(1)))
        at_.skip();
    }
  }

  // At the opening quote; `start` is where its prefix began. The whole literal is one token.
  bool string(std::size_t start, bool formatted) {
    if (!skip_string(formatted, 0)) return false;
    stream_.add(at_.since(start));
    return true;
  }

  // The replacement fields of an f-string hold strings of their own, and format specs in which a quote is
  // only a character.
  bool skip_string(bool formatted, int nesting) {
    if (nesting > 20) return false;
    const char quote = at_.peek();
    const std::array<char, 3> triple = {quote, quote, quote};
    const bool is_triple = at_.sees({triple.data(), 3});
    at_.skip(is_triple ? 3 : 1);
    int braces = 0;
    int brackets = 0;   // round and square ones, inside the outermost braces
    int spec_from = 0;  // the number of braces at which a format spec began; 0: none
    while (!at_.at_end()) {
      const char c = at_.peek();
      const bool in_expression = braces > 0 && braces != spec_from;
      if (c == '\\' && !in_expression) {
        at_.skip();
        at_.skip(std::max<std::size_t>(1, at_.line_break()));
      } else if (formatted && !in_expression && braces == 0 && (c == '{' || c == '}') && at_.peek(1) == c) {
        at_.skip(2);
      } else if (formatted && (c == '{' || c == '}')) {
        braces += c == '{' ? 1 : -1;
        if (braces < 0) return false;
        if (braces < spec_from) spec_from = 0;
        at_.skip();
      } else if (in_expression && (c == '"' || c == '\'')) {
        // From Python 3.12 on, the same quotes may nest; before, a quote here can only be another kind. Both
        // read alike.
        if (!skip_string(has_format_prefix(), nesting + 1)) return false;
      } else if (is_triple ? at_.sees({triple.data(), 3}) : c == quote) {
        if (braces > 0) return false;
        at_.skip(is_triple ? 3 : 1);
        return true;
      } else if (!is_triple && !in_expression && at_.line_break() > 0) {
        return false;
      } else if (in_expression && c == '#') {
        return false;  // a comment inside a replacement field, which could hide anything
      } else {
        if (in_expression && (c == '(' || c == '[')) ++brackets;
        if (in_expression && (c == ')' || c == ']')) --brackets;
        if (braces == 1 && brackets == 0 && c == ':') spec_from = 1;
        at_.skip();
      }
    }
    return false;
  }

  // Whether the quote here ends a prefix such as f or rf.
  bool has_format_prefix() const {
    bool found = false;
    for (std::size_t back = 1;
         back <= 2 && std::string_view("rRbBuUfFtT").find(at_.before(back)) != std::string_view::npos;
         ++back) {
      found = found || std::string_view("fFtT").find(at_.before(back)) != std::string_view::npos;
    }
    return found;
  }

  Cursor at_;
  TokenStream stream_;
  std::vector<Column> columns_ = {{0, 0}};
  int depth_ = 0;  // of brackets
  bool line_begins_ = true;
  bool line_has_tokens_ = false;
};

}  // namespace

std::optional<TokenStream> tokenise_python(std::string_view text) { return Python(text).run(); }

}  // namespace tessera::stack

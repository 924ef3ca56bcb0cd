// Shell scripts and Dockerfiles: words between blanks are verbatim with everything that is quoted or nested
// in them, line ends count, here-documents are verbatim. `a>b` and `a > b` are different words to us, which
// errs on the safe side.
#include <array>
#include <vector>

#include "stack/parity/cursor.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {
namespace {

enum class Dialect { kShell, kDockerfile };

class Shell {
 public:
  Shell(std::string_view text, Dialect dialect) : at_(text), dialect_(dialect) {}

  std::optional<TokenStream> run() {
    while (!at_.at_end()) {
      const char c = at_.peek();
      if (const std::size_t length = at_.line_break(); length > 0) {
        at_.skip(length);
        if (!line_goes_on_) stream_.add_newline();
        line_goes_on_ = false;
        line_begins_ = true;
        if (!here_documents()) return std::nullopt;
      } else if (is_blank(c)) {
        at_.skip();
      } else if (c == '#' && (dialect_ == Dialect::kShell || line_begins_)) {
        const std::string_view comment = at_.take_line();
        stream_.add_comment(comment);
        if (dialect_ == Dialect::kDockerfile) {
          // "# escape=`" changes the grammar of what follows.
          if (comment.find("escape=`") != std::string_view::npos) return std::nullopt;
          line_goes_on_ = in_joined_line_;  // a comment line inside a joined instruction is skipped by docker
        }
      } else if (c == '\\' && joined() > 0) {
        at_.skip(joined());
        in_joined_line_ = true;
        line_begins_ = true;
        continue;
      } else if (!word()) {
        return std::nullopt;
      } else {
        line_begins_ = false;
        in_joined_line_ = false;
      }
    }
    if (!pending_.empty()) return std::nullopt;
    stream_.add_newline();
    return std::move(stream_);
  }

 private:
  struct HereDocument {
    std::string end;
    bool strips_tabs;
  };

  // The length of a backslash with its line break, 0 when the backslash joins nothing. Docker allows blanks
  // between them.
  std::size_t joined() const {
    std::size_t length = 1;
    while (dialect_ == Dialect::kDockerfile && is_blank(at_.peek(length))) ++length;
    if (at_.peek(length) == '\n') return length + 1;
    if (at_.peek(length) == '\r' && at_.peek(length + 1) == '\n') return length + 2;
    return 0;
  }

  bool word() {
    std::string text;
    while (!at_.at_end() && at_.line_break() == 0 && !is_blank(at_.peek())) {
      const char c = at_.peek();
      if (c == '\\') {
        if (joined() > 0) {
          // "a\<newline>b" is one word "ab" in a shell; leave the break to the main loop only when a blank or
          // the line's start follows
          const std::size_t length = joined();
          if (is_blank(at_.peek(length)) || dialect_ == Dialect::kDockerfile) break;
          at_.skip(length);
          continue;
        }
        text += at_.rest().substr(0, 2);
        at_.skip(2);
        continue;
      }
      const std::size_t start = at_.position();
      if (at_.sees("<<") && !at_.sees("<<<")) {
        if (!here_document_begins()) return false;
      } else if (!skip_part(0)) {
        return false;
      }
      text += at_.since(start);
    }
    if (!text.empty()) stream_.add(std::move(text));
    return true;
  }

  // One character, or a quoted or nested part of a word.
  bool skip_part(int nesting) {
    if (nesting > 30) return false;
    const char c = at_.peek();
    if (c == '\'') return at_.skip_quoted('\'', false, false);
    if (c == '`') return at_.skip_quoted('`', true, false);
    if (c == '"') return skip_double_quoted(nesting);
    if (at_.sees("$'")) {
      at_.skip();
      return at_.skip_quoted('\'', true, false);
    }
    if (at_.sees("$(")) return skip_nested('(', ')', nesting);
    if (at_.sees("${")) return skip_nested('{', '}', nesting);
    at_.skip();
    return true;
  }

  bool skip_double_quoted(int nesting) {
    for (at_.skip(); !at_.at_end();) {
      const char c = at_.peek();
      if (c == '"') {
        at_.skip();
        return true;
      }
      if (c == '\\') {
        at_.skip(2);
      } else if (c == '`' || at_.sees("$(") || at_.sees("${")) {
        if (!skip_part(nesting + 1)) return false;
      } else {
        at_.skip();
      }
    }
    return false;
  }

  // From '$' past the matching bracket. A here-document or a `case` inside would hide brackets: give up.
  bool skip_nested(char open, char close, int nesting) {
    const std::size_t start = at_.position();
    at_.skip(2);
    int depth = 1;
    while (!at_.at_end()) {
      const char c = at_.peek();
      if (c == '\\') {
        at_.skip(2);
      } else if (c == open) {
        ++depth;
        at_.skip();
      } else if (c == close) {
        at_.skip();
        if (--depth == 0) {
          const std::string_view text = at_.since(start);
          const bool arithmetic = text.starts_with("$((");
          return arithmetic ||
                 (text.find("<<") == std::string_view::npos && text.find("case ") == std::string_view::npos);
        }
      } else if (!skip_part(nesting + 1)) {
        return false;
      }
    }
    return false;
  }

  // "<<EOF", "<<-'EOF'", "<< EOF": remembers it for the end of the line.
  bool here_document_begins() {
    at_.skip(2);
    HereDocument here{.end = {}, .strips_tabs = at_.peek() == '-'};
    if (here.strips_tabs) at_.skip();
    while (is_blank(at_.peek())) at_.skip();
    while (!at_.at_end()) {
      const char c = at_.peek();
      if (c == '\'' || c == '"') {
        const std::size_t start = at_.position();
        if (!at_.skip_quoted(c, false, true)) return false;
        const std::string_view quoted = at_.since(start);
        here.end += quoted.substr(1, quoted.size() - 2);
      } else if (is_word(c) || c == '-' || c == '.') {
        here.end += c;
        at_.skip();
      } else {
        break;
      }
    }
    if (here.end.empty()) return false;
    pending_.push_back(std::move(here));
    return true;
  }

  bool here_documents() {
    for (const HereDocument& here : pending_) {
      const std::size_t start = at_.position();
      while (true) {
        if (at_.at_end()) return false;
        std::string_view line = at_.take_line();
        at_.skip(at_.line_break());
        while (here.strips_tabs && line.starts_with('\t')) line.remove_prefix(1);
        if (line == here.end) break;
      }
      stream_.add(at_.since(start));
    }
    pending_.clear();
    return true;
  }

  Cursor at_;
  const Dialect dialect_;
  TokenStream stream_;
  std::vector<HereDocument> pending_;
  bool line_begins_ = true;
  bool in_joined_line_ = false;  // the line before ended with a backslash
  bool line_goes_on_ = false;
};

}  // namespace

std::optional<TokenStream> tokenise_shell(std::string_view text) {
  return Shell(text, Dialect::kShell).run();
}
std::optional<TokenStream> tokenise_dockerfile(std::string_view text) {
  return Shell(text, Dialect::kDockerfile).run();
}

}  // namespace tessera::stack

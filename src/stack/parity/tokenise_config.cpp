// YAML, TOML, INI, JSON, CMake and Makefiles. Where a value may hold blanks, lines are verbatim and only
// blank lines, blanks at the end (where they mean nothing) and comments are told apart.
#include <array>

#include "stack/parity/cursor.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {
namespace {

std::string_view trimmed_right(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// Where the comment of a YAML line begins, or its size; nothing when a quoted scalar does not end on the
// line. A quote opens a scalar only where one may begin; elsewhere ("it's") it is a character.
std::optional<std::size_t> yaml_comment(std::string_view line) {
  bool may_begin = true;
  bool in_property = false;  // !tag or &anchor, after which a scalar may still begin
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const char before = i == 0 ? ' ' : line[i - 1];
    if (c == '#' && is_blank(before)) return i;
    if (is_blank(c)) {
      may_begin = may_begin || in_property || before == '-' || before == '?' || before == ':';
      in_property = false;
    } else if (may_begin && (c == '"' || c == '\'')) {
      std::size_t end = i + 1;
      while (end < line.size()) {
        if (c == '"' && line[end] == '\\') {
          ++end;
        } else if (line[end] == c) {
          if (c == '"' || line.substr(end + 1, 1) != "'") break;
          ++end;  // '' is a quote inside single quotes
        }
        ++end;
      }
      if (end >= line.size()) return std::nullopt;
      i = end;
      may_begin = false;
    } else {
      in_property = in_property || (may_begin && (c == '!' || c == '&'));
      const bool after_quoted_key = c == ':' && (before == '"' || before == '\'');
      may_begin = c == '[' || c == '{' || c == ',' || after_quoted_key;
    }
  }
  return line.size();
}

bool opens_block_scalar(std::string_view content) {
  // "key: |", "- >-", "|2+": the last word is a block header.
  const std::size_t space = content.find_last_of(" \t");
  const std::string_view word = space == std::string_view::npos ? content : content.substr(space + 1);
  return !word.empty() && (word[0] == '|' || word[0] == '>') &&
         word.find_first_not_of("+-123456789", 1) == std::string_view::npos;
}

}  // namespace

std::optional<TokenStream> tokenise_yaml(std::string_view text) {
  TokenStream stream;
  Cursor at(text);
  std::optional<std::size_t> block;  // the indentation of the line that opened a block scalar
  while (!at.at_end()) {
    const std::string_view line = at.take_line();
    at.skip(at.line_break());
    const std::size_t indent = line.find_first_not_of(' ');
    const bool empty = line.find_first_not_of(" \t") == std::string_view::npos;
    if (block && (empty || indent > *block)) {
      stream.add("\1|" + std::string(line));
      continue;
    }
    block.reset();
    if (empty) continue;
    const auto comment = yaml_comment(line);
    if (!comment) return std::nullopt;
    const std::string_view content = trimmed_right(line.substr(0, *comment));
    if (!content.empty()) {
      if (opens_block_scalar(content)) {
        if (content.starts_with("---")) return std::nullopt;  // its text may stand at the margin
        block = indent;
      }
      stream.add(content);
    }
    if (*comment < line.size()) stream.add_comment(line.substr(*comment));
  }
  return stream;
}

std::optional<TokenStream> tokenise_toml(std::string_view text) {
  TokenStream stream;
  Cursor at(text);
  while (!at.at_end()) {
    const char c = at.peek();
    const std::size_t start = at.position();
    if (const std::size_t length = at.line_break(); length > 0) {
      at.skip(length);
      stream.add_newline();
    } else if (is_blank(c)) {
      at.skip();
    } else if (c == '#') {
      stream.add_comment(at.take_line());
    } else if (at.sees("\"\"\"") || at.sees("'''")) {
      const std::string quotes(3, c);
      at.skip(3);
      while (!at.at_end() && !at.sees(quotes)) at.skip(c == '"' && at.peek() == '\\' ? 2 : 1);
      if (at.at_end()) return std::nullopt;
      while (at.peek() == c) at.skip();  // up to two quotes may belong to the text
      stream.add(at.since(start));
    } else if (c == '"' || c == '\'') {
      if (!at.skip_quoted(c, c == '"', true)) return std::nullopt;
      stream.add(at.since(start));
    } else if (std::string_view("=[]{},").find(c) != std::string_view::npos) {
      at.skip();
      stream.add(at.since(start));
    } else {
      // Dates with a blank, dotted keys, numbers: everything between blanks and punctuation.
      while (!at.at_end() && !is_blank(at.peek()) && at.line_break() == 0 &&
             std::string_view("=[]{},#\"'").find(at.peek()) == std::string_view::npos) {
        at.skip();
      }
      stream.add(at.since(start));
    }
  }
  stream.add_newline();
  return stream;
}

std::optional<TokenStream> tokenise_ini(std::string_view text) {
  TokenStream stream;
  Cursor at(text);
  while (!at.at_end()) {
    const std::string_view line = at.take_line();
    at.skip(at.line_break());
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos) {
      // Readers disagree on whether an empty line ends a value that goes on, so it counts before an indented
      // line.
      if (is_blank(at.peek())) stream.add(std::string("\1empty"));
    } else if (line[first] == '#' || line[first] == ';') {
      stream.add_comment(line.substr(first));
    } else {
      stream.add(trimmed_right(line));  // blanks in front make it a continuation
    }
  }
  return stream;
}

std::optional<TokenStream> tokenise_json(std::string_view text) {
  TokenStream stream;
  Cursor at(text);
  while (!at.at_end()) {
    const char c = at.peek();
    const std::size_t start = at.position();
    if (is_blank(c) || at.line_break() > 0) {
      at.skip();
      continue;
    }
    if (c == '"') {
      if (!at.skip_quoted('"', true, true)) return std::nullopt;
    } else if (c == '/' || c == '\'' || c == '#') {
      return std::nullopt;  // some dialect with comments
    } else if (is_word(c) || c == '-' || c == '+') {
      while (is_word(at.peek()) || at.peek() == '-' || at.peek() == '+' || at.peek() == '.') at.skip();
    } else {
      at.skip();
    }
    stream.add(at.since(start));
  }
  return stream;
}

namespace {

// "[==[ … ]==]" from its first bracket. False when it is none; nothing when it never ends.
std::optional<bool> skip_cmake_bracket(Cursor& at) {
  std::size_t level = 1;
  while (at.peek(level) == '=') ++level;
  if (at.peek() != '[' || at.peek(level) != '[') return false;
  const std::string close = ']' + std::string(level - 1, '=') + ']';
  const std::size_t end = at.rest().find(close, level + 1);
  if (end == std::string_view::npos) return std::nullopt;
  at.skip(end + close.size());
  return true;
}

}  // namespace

std::optional<TokenStream> tokenise_cmake(std::string_view text) {
  TokenStream stream;
  Cursor at(text);
  while (!at.at_end()) {
    const char c = at.peek();
    const std::size_t start = at.position();
    if (is_blank(c) || at.line_break() > 0) {
      at.skip();
    } else if (c == '#') {
      at.skip();
      const auto bracket = skip_cmake_bracket(at);
      if (!bracket) return std::nullopt;
      if (!*bracket) at.take_line();
      stream.add_comment(at.since(start));
    } else if (c == '(' || c == ')') {
      at.skip();
      stream.add(at.since(start));
    } else {
      const auto bracket = skip_cmake_bracket(at);
      if (!bracket) return std::nullopt;
      // An argument, with quoted parts glued into it.
      while (!*bracket && !at.at_end() && !is_blank(at.peek()) && at.line_break() == 0 &&
             std::string_view("()#").find(at.peek()) == std::string_view::npos) {
        if (at.peek() == '"') {
          if (!at.skip_quoted('"', true, false)) return std::nullopt;
        } else {
          at.skip(at.peek() == '\\' ? 2 : 1);
        }
      }
      stream.add(at.since(start));
    }
  }
  return stream;
}

std::optional<TokenStream> tokenise_makefile(std::string_view text) {
  TokenStream stream;
  Cursor at(text);
  bool goes_on = false;  // the line before ended with a backslash
  bool in_comment = false;
  while (!at.at_end()) {
    const std::string_view line = at.take_line();
    at.skip(at.line_break());
    const std::size_t first = line.find_first_not_of(" \t");
    const bool recipe = line.starts_with('\t');
    const bool joins = line.ends_with('\\');
    if (!goes_on && (line.starts_with("define") || line.find("RECIPEPREFIX") != std::string_view::npos))
      return std::nullopt;
    if (!goes_on) in_comment = !recipe && first != std::string_view::npos && line[first] == '#';
    if (in_comment) {
      stream.add_comment(line);
    } else if (goes_on || recipe || first != std::string_view::npos) {
      stream.add("\1:" + std::string(line));  // blanks at the end of a variable belong to it
    }
    goes_on = joins;
  }
  return stream;
}

}  // namespace tessera::stack

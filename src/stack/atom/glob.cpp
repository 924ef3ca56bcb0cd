#include "stack/atom/glob.h"

#include <vector>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

struct Token {
  enum class Kind { kByte, kAnyByte, kSet, kStar, kDeep, kDeepFolder } kind;
  std::string_view set{};  // between the brackets
  char byte = 0;
  bool is_quoted = false;  // by a backslash
};

std::vector<Token> tokens_of(std::string_view glob) {
  using Kind = Token::Kind;
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < glob.size(); ++i) {
    const char c = glob[i];
    if (c == '*' && glob.substr(i).starts_with("**")) {
      const bool at_start = i == 0 || glob[i - 1] == '/';
      i += 1;
      if (at_start && glob.substr(i + 1).starts_with("/")) {
        i += 1;
        tokens.push_back({.kind = Kind::kDeepFolder});
      } else {
        tokens.push_back({.kind = Kind::kDeep});
      }
    } else if (c == '*') {
      tokens.push_back({.kind = Kind::kStar});
    } else if (c == '?') {
      tokens.push_back({.kind = Kind::kAnyByte});
    } else if (c == '[' && glob.find(']', i + 2) != std::string_view::npos) {
      const std::size_t end = glob.find(']', i + 2);
      tokens.push_back({.kind = Kind::kSet, .set = glob.substr(i + 1, end - i - 1)});
      i = end;
    } else {
      const bool is_quoted = c == '\\' && i + 1 < glob.size();
      if (is_quoted) ++i;
      tokens.push_back({.kind = Kind::kByte, .byte = glob[i], .is_quoted = is_quoted});
    }
  }
  return tokens;
}

bool in_set(std::string_view set, char c) {
  const bool inverted = set.starts_with('!') || set.starts_with('^');
  if (inverted) set.remove_prefix(1);
  bool found = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      found |= set[i] <= c && c <= set[i + 2];
      i += 2;
    } else {
      found |= set[i] == c;
    }
  }
  return found != inverted;
}

}  // namespace

bool glob_matches(std::string_view glob, std::string_view path) {
  using Kind = Token::Kind;
  const std::vector<Token> tokens = tokens_of(glob);
  // States are positions in `tokens`; one pass over the path, so that no glob takes exponential time.
  std::vector<char> now(tokens.size() + 1, 0);
  std::vector<char> next(tokens.size() + 1, 0);
  const auto enter = [&](std::vector<char>& states, std::size_t at) {
    while (true) {
      states[at] = 1;
      if (at == tokens.size()) return;
      const Kind kind = tokens[at].kind;
      if (kind != Kind::kStar && kind != Kind::kDeep && kind != Kind::kDeepFolder) return;
      ++at;  // each of these also stands for nothing
    }
  };
  enter(now, 0);
  for (const char c : path) {
    next.assign(next.size(), 0);
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      if (now[at] == 0) continue;
      const Token& token = tokens[at];
      switch (token.kind) {
        case Kind::kByte:
          if (token.byte == c) enter(next, at + 1);
          break;
        case Kind::kAnyByte:
          if (c != '/') enter(next, at + 1);
          break;
        case Kind::kSet:
          if (c != '/' && in_set(token.set, c)) enter(next, at + 1);
          break;
        case Kind::kStar:
          if (c != '/') enter(next, at);
          break;
        case Kind::kDeep:
          enter(next, at);
          break;
        case Kind::kDeepFolder:
          next[at] = 1;                       // inside a folder name: what follows cannot begin here
          if (c == '/') enter(next, at + 1);  // after a whole folder it can
          break;
      }
    }
    std::swap(now, next);
  }
  return now[tokens.size()] != 0;
}

Result<void> check_glob(std::string_view glob) {
  using Kind = Token::Kind;
  bool is_open = false, has_choice = false;
  char last = 0;
  for (const Token& token : tokens_of(glob)) {
    const char c = token.kind == Kind::kByte && !token.is_quoted ? token.byte : '\0';
    if (c == '{') {
      is_open = true;
      has_choice = false;
    }
    has_choice = has_choice || c == ',' || (c == '.' && last == '.');
    if (c == '}' && is_open && has_choice) {
      return Error{
          ErrorKind::kInvalidArgument, "glob '" + printable(glob) + "'",
          "Braces are no part of a glob, which knows *, ?, [a-z], [!a] and **; write one glob for each "
          "choice, or \\{ where the path itself holds a brace."};
    }
    last = c;
  }
  return {};
}

}  // namespace tessera::stack

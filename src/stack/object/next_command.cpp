#include "stack/object/next_command.h"

#include <algorithm>

namespace tessera::stack {
namespace {

constexpr std::string_view kNext = "; next: ";

bool is_plain(char c) {
  const bool is_alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return is_alnum || std::string_view("-_./:@,+=^~%").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  // A leading tilde or a word like A=b means something to a shell.
  if (!word.empty() && word.front() != '~' && word.find('=') >= word.find('-') &&
      std::ranges::all_of(word, is_plain)) {
    return std::string(word);
  }
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string with_next(std::string_view sentence, std::string_view command) {
  if (sentence.ends_with('.')) sentence.remove_suffix(1);
  return std::string(sentence) + std::string(kNext) + std::string(command);
}

Error with_next(Error error, std::string_view command) {
  error.what = with_next(error.what, command);
  return error;
}

SentenceAndNext split_next(std::string_view message) {
  const std::size_t at = message.rfind(kNext);
  if (at == std::string_view::npos) return {std::string(message), ""};
  return {std::string(message.substr(0, at)) + ".", std::string(message.substr(at + kNext.size()))};
}

}  // namespace tessera::stack

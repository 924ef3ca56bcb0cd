#include "stack/parity/token_stream.h"

namespace tessera::stack {

void TokenStream::add_comment(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n\f");
  tokens_.push_back({std::string(text.substr(0, last == std::string_view::npos ? 0 : last + 1)), true});
}

void TokenStream::add_newline() {
  // Looks through comments: a comment line of its own must not make a second break.
  for (auto token = tokens_.rbegin(); token != tokens_.rend(); ++token) {
    if (token->is_comment) continue;
    if (token->text != kNewline) add(kNewline);
    return;
  }
}

std::optional<TokenStream> tokenise(Language language, std::string_view text) {
  // A NUL means that this is no text of any of these languages, and a byte order mark is read by some tools
  // only.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xef\xbb\xbf")) return std::nullopt;
  switch (language) {
    case Language::kUnknown:
      return std::nullopt;
    case Language::kPython:
      return tokenise_python(text);
    case Language::kC:
      return tokenise_c(text);
    case Language::kShell:
      return tokenise_shell(text);
    case Language::kDockerfile:
      return tokenise_dockerfile(text);
    case Language::kYaml:
      return tokenise_yaml(text);
    case Language::kToml:
      return tokenise_toml(text);
    case Language::kIni:
      return tokenise_ini(text);
    case Language::kJson:
      return tokenise_json(text);
    case Language::kCMake:
      return tokenise_cmake(text);
    case Language::kRust:
      return tokenise_rust(text);
    case Language::kScript:
      return tokenise_script(text);
    case Language::kMakefile:
      return tokenise_makefile(text);
  }
  return std::nullopt;
}

}  // namespace tessera::stack

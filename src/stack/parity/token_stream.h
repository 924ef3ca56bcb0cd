// The tokens of a text, comments among them in their places. Two texts with equal streams mean the same to a
// compiler or interpreter.
//
// Tokenisers are total (any bytes are accepted) and conservative: where the grammar is in doubt they give
// nothing, and the difference counts as real. White space that carries meaning is a token itself (kNewline,
// kIndent, kDedent, or text kept verbatim).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/parity/language.h"

namespace tessera::stack {

struct Token {
  std::string text;
  bool is_comment = false;
  friend bool operator==(const Token&, const Token&) = default;
};

// Synthetic tokens; control characters, so that no source text equals them.
inline constexpr std::string_view kNewline = "\1newline";
inline constexpr std::string_view kIndent = "\1indent";
inline constexpr std::string_view kDedent = "\1dedent";

class TokenStream {
 public:
  void add(std::string text) { tokens_.push_back({std::move(text), false}); }
  void add(std::string_view text) { tokens_.push_back({std::string(text), false}); }
  // Blanks at the end of a comment are nothing.
  void add_comment(std::string_view text);
  // A line break; several in a row are one, and one at the very beginning is none.
  void add_newline();
  const std::vector<Token>& tokens() const { return tokens_; }
  bool is_empty() const { return tokens_.empty(); }

 private:
  std::vector<Token> tokens_;
};

// Nothing: unknown language, or a text that the tokeniser does not understand for certain.
std::optional<TokenStream> tokenise(Language language, std::string_view text);

// One per grammar; `tokenise` chooses.
std::optional<TokenStream> tokenise_python(std::string_view text);
std::optional<TokenStream> tokenise_c(std::string_view text);
std::optional<TokenStream> tokenise_script(std::string_view text);
std::optional<TokenStream> tokenise_rust(std::string_view text);
std::optional<TokenStream> tokenise_shell(std::string_view text);
std::optional<TokenStream> tokenise_dockerfile(std::string_view text);
std::optional<TokenStream> tokenise_yaml(std::string_view text);
std::optional<TokenStream> tokenise_toml(std::string_view text);
std::optional<TokenStream> tokenise_ini(std::string_view text);
std::optional<TokenStream> tokenise_json(std::string_view text);
std::optional<TokenStream> tokenise_cmake(std::string_view text);
std::optional<TokenStream> tokenise_makefile(std::string_view text);

}  // namespace tessera::stack

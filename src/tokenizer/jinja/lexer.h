// Cuts template source into text and tokens, with the white-space rules that `transformers` sets: trim_blocks
// (a newline right after a tag goes), lstrip_blocks (blanks before a tag that begins its line go), `-` strips
// all, `+` none; one newline at the end of the source is dropped; line ends become "\n".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

enum class TokenKind {
  kText,        // outside of tags
  kPrintBegin,  // {{
  kPrintEnd,    // }}
  kBlockBegin,  // {%
  kBlockEnd,    // %}
  kName,
  kString,   // `text` is the decoded content
  kInteger,  // `number`
  kFloat,    // `number`
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;
  Value number;
  int line;
};

// The last token is kEnd. Throws Failure.
std::vector<Token> tokenize(std::string_view source);

}  // namespace tessera::jinja

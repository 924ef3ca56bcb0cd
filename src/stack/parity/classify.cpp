#include "stack/parity/classify.h"

#include <string>
#include <utility>
#include <vector>

#include "stack/parity/directive.h"
#include "stack/parity/token_stream.h"

namespace tessera::stack {
namespace {

std::string with_plain_line_ends(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::vector<std::string_view> code_of(const TokenStream& stream) {
  std::vector<std::string_view> out;
  for (const Token& token : stream.tokens()) {
    if (!token.is_comment) out.push_back(token.text);
  }
  return out;
}

// Each with the number of code tokens in front of it, because a directive speaks of its place.
std::vector<std::pair<std::size_t, std::string_view>> directives_of(const TokenStream& stream) {
  std::vector<std::pair<std::size_t, std::string_view>> out;
  std::size_t code = 0;
  for (const Token& token : stream.tokens()) {
    if (!token.is_comment) {
      ++code;
    } else if (is_directive(token.text)) {
      out.emplace_back(code, token.text);
    }
  }
  return out;
}

}  // namespace

std::string_view name_of(TextClass value) {
  switch (value) {
    case TextClass::kSame:
      return "same";
    case TextClass::kEol:
      return "eol";
    case TextClass::kBlank:
      return "blank";
    case TextClass::kComment:
      return "comment";
    case TextClass::kDirective:
      return "directive";
    case TextClass::kReal:
      return "real";
  }
  return "unknown";
}

TextClass classify_texts(std::string_view path, std::string_view before, std::string_view after) {
  if (before == after) return TextClass::kSame;
  const Language language = language_of(path, after);
  // A NUL makes it binary, where a carriage return is a byte like any other.
  const bool text = before.find('\0') == std::string_view::npos && after.find('\0') == std::string_view::npos;
  if (text && with_plain_line_ends(before) == with_plain_line_ends(after)) return TextClass::kEol;
  if (language == Language::kUnknown || language != language_of(path, before)) return TextClass::kReal;
  const auto old_stream = tokenise(language, before);
  if (!old_stream) return TextClass::kReal;
  const auto new_stream = tokenise(language, after);
  if (!new_stream) return TextClass::kReal;
  if (old_stream->tokens() == new_stream->tokens()) return TextClass::kBlank;
  if (code_of(*old_stream) != code_of(*new_stream)) return TextClass::kReal;
  return directives_of(*old_stream) == directives_of(*new_stream) ? TextClass::kComment
                                                                  : TextClass::kDirective;
}

}  // namespace tessera::stack

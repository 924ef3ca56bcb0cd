// How two texts of one path differ, from nothing to for real: the mildest class that is certain.
#pragma once

#include <string_view>

namespace tessera::stack {

enum class TextClass {
  kSame,
  kEol,        // equal after CRLF -> LF, or only the final newline differs
  kBlank,      // token streams equal; only white space without meaning differs
  kComment,    // equal after removing comments
  kDirective,  // as kComment, but a comment changed or moved that some tool reads
  kReal,
};
std::string_view name_of(TextClass value);

TextClass classify_texts(std::string_view path, std::string_view before, std::string_view after);

}  // namespace tessera::stack

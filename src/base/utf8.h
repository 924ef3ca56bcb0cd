// A code point as UTF-8. Reading and repairing it is tokenizer/unicode/utf8.h.
#pragma once

#include <string>

namespace tessera {

void append_utf8(std::string& to, char32_t point);  // up to U+10FFFF

}  // namespace tessera

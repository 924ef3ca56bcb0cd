// Rewrites a tokenizer's pattern, written for Rust's regex or Oniguruma, so that PCRE2 reads it the same way:
//
//   [\p{Lu}\p{Lo}&&[^\p{Han}]]   class intersection: PCRE2 10.42 has none; the same set as one negated class
//   \p{Han}                      the script, where PCRE2 would take script extensions (which add U+3001 and
//   others) \s \S                        Unicode White_Space, where PCRE2 adds U+180E \w \W letters, marks,
//   numbers and connectors, where PCRE2 leaves out marks \uXXXX                       \x{XXXX}
//
// What PCRE2 would read differently and is not in this list (nested classes, Oniguruma's \h) is refused.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera {

Result<std::string> translate_to_pcre2(std::string_view pattern);

}  // namespace tessera

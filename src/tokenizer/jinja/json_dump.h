// json.dumps with the options that templates use.
#pragma once

#include <optional>
#include <string>

#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

struct JsonStyle {
  bool ascii = false;                 // \uXXXX for everything outside of ASCII
  bool sorted = false;                // keys in order of code points
  std::optional<std::string> indent;  // one level of it; absent: all on one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

// Foreign if any string in `value` is; fails for what JSON has no form for.
Text dump_json(const Value& value, const JsonStyle& style);

}  // namespace tessera::jinja

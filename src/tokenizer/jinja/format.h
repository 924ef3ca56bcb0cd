// "%s of %d" % (...) and "{} of {name}".format(...).
#pragma once

#include "tokenizer/jinja/call.h"
#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

Value format_percent(Interpreter& run, const Text& pattern, const Value& arguments);
// call.args[0] is the pattern. Fields by number, name or in turn, with !r and !s; format specs are not
// supported.
Value format_braces(Call& call);

}  // namespace tessera::jinja

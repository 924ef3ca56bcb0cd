// Template source to a tree, with Jinja2's grammar and precedence. What chat templates have no use for
// (include, import, extends, block, autoescape, recursive loops) is an error with its line.
#pragma once

#include <string_view>

#include "tokenizer/jinja/ast.h"

namespace tessera::jinja {

// Throws Failure.
Block parse_template(std::string_view source);

}  // namespace tessera::jinja

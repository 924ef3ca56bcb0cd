// Jinja's expressions, from the tokens of a template: everything that stands for a value.
#pragma once

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/token_stream.h"

namespace tessera::jinja {

ExprPtr parse_expression(TokenStream& in);
// a, b, c without brackets is a tuple. Without conditionals `if` ends it, as in {% for x in a if b %}.
ExprPtr parse_tuple_or_expression(TokenStream& in, bool with_conditional = true);
// The filter that follows a bar, applied to `input`, which may be null.
ExprPtr parse_filter(TokenStream& in, ExprPtr input);

}  // namespace tessera::jinja

// JSON itself as byte-grammar rules. Blanks are bounded: a model that may write blanks for ever sometimes
// does (vllm#55313). So are digits, which keeps numbers within what parsers take.
#pragma once

#include "server/grammar/byte_grammar.h"

namespace tessera {

inline constexpr int kMostIndent = 16;          // blanks after a line break; between other things: one
inline constexpr int kMostIntegerDigits = 18;   // fits 64 bits
inline constexpr int kMostFractionDigits = 17;  // all that a double can tell apart

struct JsonRules {
  ByteGrammar::Rule blank;        // nothing, one space, or a line break and its indent
  ByteGrammar::Rule string_body;  // from behind the opening quote to the closing one; an item is a code point
  ByteGrammar::Rule string;
  ByteGrammar::Rule integer;
  ByteGrammar::Rule number;
  ByteGrammar::Rule object;  // any
  ByteGrammar::Rule array;   // any
  ByteGrammar::Rule value;   // any
};

JsonRules add_json_rules(ByteGrammar& grammar);
// The bytes that continue a string without an escape, from `from` to `to`: one code point other than the
// quote, the backslash and control characters.
void add_plain_character(ByteGrammar& grammar, ByteGrammar::Node from, ByteGrammar::Node to);

}  // namespace tessera

// JSON schemas as byte grammars. Supported: type (also a list), enum, const, properties, required,
// additionalProperties, items, minItems, maxItems, minLength, maxLength, anyOf, allOf of one, $ref within the
// schema (also recursive); annotations are ignored. Everything else is refused by name: ignoring a constraint
// would hand out documents that break it.
//
// Two narrowings, both within the schema's meaning: properties come in the order of declaration, and an
// object with declared properties has no others unless additionalProperties asks for them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "server/grammar/byte_grammar.h"

namespace tessera {

// Errors: kUnsupported or kInvalidArgument, `where` is the JSON pointer of the offending part.
Result<ByteGrammar> compile_schema(const nlohmann::ordered_json& schema);
// Any JSON object.
ByteGrammar any_json_object();

}  // namespace tessera

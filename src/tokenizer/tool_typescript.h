// Tool declarations as TypeScript text, the form in which Kimi K2.5 and later were trained to read them:
//
//   # Tools
//
//   ## functions
//   namespace functions {
//   // Create a new user record.
//   type create_user = (_: {
//     user: {
//       name: string,
//       age?: number
//     }
//   }) => any;
//   }
//
// Its oddities (Python's spelling of enum values, the place of `required`) are those of the tokenizer that
// the models were trained with, and are kept.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace tessera {

// Keys of all objects in order of code points: that tokenizer sorts them before it looks at anything.
nlohmann::ordered_json with_sorted_keys(const nlohmann::ordered_json& json);

// `tools` in OpenAI's form. kUnsupported for a schema that has no such form (an unresolved $ref, an unknown
// keyword set); tools of other types than "function" are left out. Empty when no function is left.
Result<std::string> tools_as_typescript(const nlohmann::ordered_json& tools);

}  // namespace tessera

// A request's body as a JSON tree, within limits that are checked while it is read.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "server/protocol/api_error.h"

namespace tessera {

struct JsonLimits {
  int depth = 100;                 // objects and arrays inside each other
  std::size_t values = 4'000'000;  // of any kind; a prompt of token ids has one for each token
  std::size_t keys_per_object = 10'000;
};

// Refused: what is not JSON (with the byte where it breaks), a name that appears twice in an object (which of
// the two counts differs between programs, which is how filters are passed by), text that is not UTF-8.
ApiResult<nlohmann::ordered_json> parse_json_body(std::string_view text, const JsonLimits& limits = {});

}  // namespace tessera

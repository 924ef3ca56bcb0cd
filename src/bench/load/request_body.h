// The JSON of a completion request for a benchmark.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace tessera::bench {

struct RequestStyle {
  std::string model;
  std::optional<double> temperature;  // absent: the server's default
  bool ignore_eos = true;
  std::string extra;  // fields of an object as JSON, added to every request; empty: none
};

// `extra` must be a JSON object.
Result<void> check_extra(const std::string& extra);
std::string completion_body(const RequestStyle& style, std::span<const std::int32_t> prompt,
                            std::int64_t max_tokens);

}  // namespace tessera::bench

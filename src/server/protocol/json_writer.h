// Writing JSON by appending to a string: answers have a fixed shape, and building a tree for each streamed
// token would cost more than everything else that is done for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

// `text` is UTF-8. Quotes included.
void append_json_string(std::string& out, std::string_view text);
void append_json_string_or_null(std::string& out, std::string_view text);  // empty: null
// Shortest digits that read back equal; NaN and infinities, which JSON has not, become -9999 (as vLLM writes
// the logprob of an impossible token).
void append_json_number(std::string& out, float value);
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, std::int64_t value);
// The bytes as an array of numbers.
void append_json_bytes(std::string& out, std::string_view bytes);

}  // namespace tessera

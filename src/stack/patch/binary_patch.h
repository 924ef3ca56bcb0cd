// The bytes inside a "GIT binary patch": base 85 over zlib, holding a whole content or a delta against the
// other side.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::stack {

// One line of up to 52 bytes in base 85, without its leading length character.
Result<std::string> decode_base85(std::string_view text, std::size_t bytes);
std::string encode_base85(std::string_view bytes);

// Unpacks exactly `size` bytes, never more.
Result<std::string> inflate_exactly(std::string_view packed, std::uint64_t size);
std::string deflate(std::string_view bytes);

// Git's pack delta: copies from `source` and literal bytes. The result's size is stated inside and at most
// `limit`.
Result<std::string> apply_delta(std::string_view source, std::string_view delta, std::uint64_t limit);

}  // namespace tessera::stack

// Bytes as text, with padding (RFC 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

std::string to_base64(std::string_view bytes);
// Nothing for what to_base64 would not have written.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tessera

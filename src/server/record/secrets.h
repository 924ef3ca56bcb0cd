// Takes out of a text what would open something for whoever reads it.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tessera {

constexpr std::string_view kRemoved = "[removed]";

// Replaced by kRemoved:
// - the server's own keys, wherever they stand;
// - what has the shape of a known kind of key: after "Bearer ", and words that begin like sk-, hf_, ghp_;
// - private keys in PEM;
// - strings in JSON, also in JSON inside a JSON string, that are called password, api_key, secret and the
// like. A text is valid JSON after it, if it was before.
std::string remove_secrets(std::string text, std::span<const std::string> own_keys);

}  // namespace tessera

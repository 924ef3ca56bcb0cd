// What stands between the quotes of a JSON string, as the text that it means. For readers that take few
// strings out of much JSON, and so do without a parser.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// Nothing when an escape is none of JSON's, or one half of a surrogate pair.
std::optional<std::string> json_unescaped(std::string_view raw);

// The same for text that is shown or counted, whoever wrote it: what would be refused becomes U+FFFD.
void append_json_unescaped(std::string& to, std::string_view raw);

}  // namespace tessera

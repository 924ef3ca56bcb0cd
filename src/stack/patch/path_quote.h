// Git's C-style quoting of paths: "caf\303\251" for bytes that a terminal or a parser could trip over.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::stack {

// As git writes it with core.quotePath on: quoted when a byte is below 0x20, above 0x7E, a quote or a
// backslash.
std::string quote_path(std::string_view path);
// A quoted path from its opening quote, and how many bytes it took; nothing when it is not well-formed.
struct Unquoted {
  std::string path;
  std::size_t length = 0;
};
std::optional<Unquoted> unquote_path(std::string_view text);

}  // namespace tessera::stack

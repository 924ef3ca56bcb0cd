// Foreign text inside HTML and XML (SVG).
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// For text and for attributes in either kind of quotes. Control characters, which XML cannot hold, become
// blanks.
std::string markup_escaped(std::string_view text);

}  // namespace tessera

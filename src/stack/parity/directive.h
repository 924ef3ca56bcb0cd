// Comments that some tool reads: changing one changes what happens, even though no compiler sees it.
#pragma once

#include <string_view>

namespace tessera::stack {

// `comment` with its marks, as it stands in the source.
bool is_directive(std::string_view comment);

}  // namespace tessera::stack

// docs/reference/flags.md, written from the flags themselves. A test keeps the page and the program equal.
#pragma once

#include <string>

namespace tessera {

std::string flags_reference();

}  // namespace tessera

// Pages that are written from the flags themselves. A test keeps each equal to the program.
#pragma once

#include <string>

namespace tessera {

std::string flags_reference();  // docs/reference/flags.md
std::string migration_guide();  // docs/how-to/migrate-from-vllm.md

}  // namespace tessera

// Completion scripts for bash, zsh and fish.
#pragma once

#include <string>
#include <string_view>

namespace tessera::stack {

std::string completion_script(std::string_view shell);

}  // namespace tessera::stack

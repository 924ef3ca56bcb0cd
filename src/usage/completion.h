// Completion scripts for bash, zsh and fish, for any program whose --help CLI11 writes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// The script for `program`, to be sourced; nothing for a shell other than bash, zsh and fish.
std::optional<std::string> completion_script(std::string_view program, std::string_view shell);

}  // namespace tessera

// The printable stand-ins of bytes in tokenizer.json: byte-level BPE files write each byte as one character,
// the printable ones as themselves, the others (blank, controls, ...) as U+0100 and up in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

// Nothing when `text` holds a character that stands for no byte.
std::optional<std::string> bytes_from_alphabet(std::string_view text);

}  // namespace tessera

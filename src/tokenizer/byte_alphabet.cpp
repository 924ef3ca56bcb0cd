#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "tokenizer/unicode/utf8.h"

namespace tessera {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

// [character]: the byte, or -1.
constexpr std::array<std::int16_t, 324> kByteOf = [] {
  std::array<std::int16_t, 324> table{};
  table.fill(-1);
  std::size_t stand_in = 256;
  for (int byte = 0; byte < 256; ++byte) {
    table[stands_for_itself(byte) ? static_cast<std::size_t>(byte) : stand_in++] =
        static_cast<std::int16_t>(byte);
  }
  return table;
}();

}  // namespace

std::optional<std::string> bytes_from_alphabet(std::string_view text) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Prefix character = read_utf8(text.substr(at));
    if (character.kind != Utf8Prefix::kCharacter || character.point >= kByteOf.size()) return std::nullopt;
    const std::int16_t byte = kByteOf[character.point];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    at += static_cast<std::size_t>(character.bytes);
  }
  return bytes;
}

}  // namespace tessera

// UTF-8: reading it character by character, and repairing what is not UTF-8 the way Python's errors="replace"
// does (each maximal prefix of a character that is broken off becomes one U+FFFD, any other wrong byte one
// each). Writing a character is base/utf8.h.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace tessera {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// What the bytes at the start of a text are.
struct Utf8Prefix {
  enum Kind { kCharacter, kBroken, kUnfinished };
  Kind kind;
  int bytes;       // of the character; of the broken part, at least 1; of the unfinished rest
  char32_t point;  // for kCharacter
};
// `text` is not empty. kUnfinished: all of it is the beginning of a character that may go on.
Utf8Prefix read_utf8(std::string_view text);

bool is_utf8(std::string_view text);
// Bytes up to the first one that is not part of a whole character.
std::size_t utf8_prefix_bytes(std::string_view text);
std::string repair_utf8(std::string_view text);

std::u32string utf8_to_points(std::string_view text);  // of repaired text
std::string points_to_utf8(std::u32string_view points);
// Bytes of the character that starts with this byte of valid UTF-8.
inline int utf8_bytes_from_lead(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
std::size_t count_points(std::string_view valid);  // characters in valid UTF-8

// Repairs a stream that arrives in pieces cut anywhere.
class Utf8Repair {
 public:
  // Appends the repaired text to `out`; the bytes of an unfinished character stay here.
  void push(std::string_view bytes, std::string& out);
  std::string flush();
  std::size_t held_bytes() const { return held_count_; }

 private:
  std::array<char, 4> held_{};
  std::size_t held_count_ = 0;
};

}  // namespace tessera

#include "stack/object_id.h"

#include <algorithm>

#include "stack/digest.h"

namespace tessera::stack {

std::string to_hex(const Oid& oid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(40);
  for (const std::uint8_t byte : oid.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Oid> parse_oid(std::string_view hex) {
  if (hex.size() != 40) return std::nullopt;
  Oid oid;
  for (std::size_t i = 0; i < 40; ++i) {
    const char c = hex[i];
    int digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return std::nullopt;
    }
    oid.bytes[i / 2] = static_cast<std::uint8_t>(oid.bytes[i / 2] << 4 | digit);
  }
  return oid;
}

Oid blob_id(std::string_view bytes) {
  Digest digest(HashKind::kSha1);
  digest.add("blob " + std::to_string(bytes.size()) + std::string(1, '\0'));
  digest.add(bytes);
  Oid oid;
  const std::string raw = digest.raw();
  std::ranges::copy(raw, reinterpret_cast<char*>(oid.bytes.data()));
  return oid;
}

std::string_view octal_of(FileMode mode) {
  switch (mode) {
    case FileMode::kFile:
      return "100644";
    case FileMode::kExecutable:
      return "100755";
    case FileMode::kSymlink:
      return "120000";
    case FileMode::kGitlink:
      return "160000";
  }
  return "000000";
}

}  // namespace tessera::stack

#include "stack/patch/path_quote.h"

#include <array>
#include <utility>

namespace tessera::stack {
namespace {

constexpr std::array<std::pair<char, char>, 9> kEscapes = {{{'a', '\a'},
                                                            {'b', '\b'},
                                                            {'t', '\t'},
                                                            {'n', '\n'},
                                                            {'v', '\v'},
                                                            {'f', '\f'},
                                                            {'r', '\r'},
                                                            {'"', '"'},
                                                            {'\\', '\\'}}};

}  // namespace

std::string quote_path(std::string_view path) {
  std::string out = "\"";
  bool needed = false;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const char* letter = nullptr;
    for (const auto& [escape, value] : kEscapes) {
      if (value == c) letter = &escape;
    }
    if (letter != nullptr) {
      out += {'\\', *letter};
    } else if (byte < 0x20 || byte > 0x7E) {
      out += {'\\', static_cast<char>('0' + (byte >> 6)), static_cast<char>('0' + ((byte >> 3) & 7)),
              static_cast<char>('0' + (byte & 7))};
    } else {
      out += c;
      continue;
    }
    needed = true;
  }
  return needed ? out + '"' : std::string(path);
}

std::optional<Unquoted> unquote_path(std::string_view text) {
  if (!text.starts_with('"')) return std::nullopt;
  std::string path;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return Unquoted{std::move(path), i + 1};
    if (text[i] != '\\') {
      path += text[i];
      continue;
    }
    if (++i >= text.size()) return std::nullopt;
    if (text[i] >= '0' && text[i] <= '3') {
      if (i + 2 >= text.size()) return std::nullopt;
      int value = 0;
      for (std::size_t digit = i; digit < i + 3; ++digit) {
        if (text[digit] < '0' || text[digit] > '7') return std::nullopt;
        value = value * 8 + (text[digit] - '0');
      }
      path += static_cast<char>(value);
      i += 2;
      continue;
    }
    bool known = false;
    for (const auto& [escape, value] : kEscapes) {
      if (escape != text[i]) continue;
      path += value;
      known = true;
    }
    if (!known) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tessera::stack

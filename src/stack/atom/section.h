// The named parts of source text: which class and function encloses a line. Evidence for people and for
// claims, never identity.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::stack {

struct Section {
  std::string kind;  // "class" or "fn"
  std::string name;
  std::string line;  // as written, trimmed
  friend bool operator==(const Section&, const Section&) = default;
};

// The sections that enclose lines[at], outermost first, the one that begins at this very line included.
std::vector<Section> enclosing_sections(std::string_view path, std::span<const std::string_view> lines,
                                        std::size_t at);

// The sections that begin within `lines`, in order.
std::vector<Section> sections_begun(std::string_view path, std::span<const std::string_view> lines);

}  // namespace tessera::stack

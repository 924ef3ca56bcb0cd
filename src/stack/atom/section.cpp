#include "stack/atom/section.h"

#include <algorithm>
#include <optional>

namespace tessera::stack {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() &&
         (text.back() == '\n' || text.back() == '\r' || text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  return text;
}

std::size_t indent_of(std::string_view line) {
  std::size_t columns = 0;
  for (const char c : line) {
    if (c == '\t') {
      columns = (columns / 8 + 1) * 8;
    } else if (c == ' ') {
      ++columns;
    } else {
      break;
    }
  }
  return columns;
}

std::string first_word(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  const auto end = std::ranges::find_if_not(text, is_word);
  return std::string(text.begin(), end);
}

std::optional<Section> python_section(std::string_view line) {
  const std::string_view text = trimmed(line);
  std::string_view rest = text;
  if (rest.starts_with("async ")) rest.remove_prefix(6);
  if (rest.starts_with("def ")) return Section{"fn", first_word(rest.substr(4)), std::string(text)};
  if (text.starts_with("class ")) return Section{"class", first_word(text.substr(6)), std::string(text)};
  return std::nullopt;
}

// C-like and unknown: git's rule, a line whose first byte could begin an identifier.
std::optional<Section> plain_section(std::string_view line) {
  if (line.empty() || !(is_word(line[0]) || line[0] == '$') || (line[0] >= '0' && line[0] <= '9'))
    return std::nullopt;
  const std::string_view text = trimmed(line);
  if (text.ends_with(':') || text.ends_with(';')) return std::nullopt;  // labels, declarations
  for (const std::string_view word :
       {"class ", "struct ", "namespace ", "enum ", "union ", "trait ", "impl "}) {
    if (text.starts_with(word))
      return Section{"class", first_word(text.substr(word.size())), std::string(text)};
  }
  const std::size_t open = text.find('(');
  std::string name = first_word(text);
  if (open != std::string_view::npos && open > 0) {
    std::size_t begin = open;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    if (begin < open) name = text.substr(begin, open - begin);
  }
  return Section{"fn", name, std::string(text)};
}

bool is_python(std::string_view path) { return path.ends_with(".py") || path.ends_with(".pyi"); }

}  // namespace

std::vector<Section> enclosing_sections(std::string_view path, std::span<const std::string_view> lines,
                                        std::size_t at) {
  std::vector<Section> found;
  if (at >= lines.size()) return found;
  if (!is_python(path)) {
    for (std::size_t i = at + 1; i-- > 0;) {
      if (auto section = plain_section(lines[i])) return {*std::move(section)};
    }
    return found;
  }
  if (auto own = python_section(lines[at])) found.push_back(*std::move(own));
  std::size_t indent = indent_of(lines[at]);
  for (std::size_t i = at; i-- > 0 && indent > 0;) {
    if (trimmed(lines[i]).empty() || indent_of(lines[i]) >= indent) continue;
    auto section = python_section(lines[i]);
    // Lines that merely stand further left (closing brackets, dedented comments) do not open a section and do
    // not close one.
    if (!section) continue;
    indent = indent_of(lines[i]);
    found.push_back(*std::move(section));
  }
  std::ranges::reverse(found);
  return found;
}

std::vector<Section> sections_begun(std::string_view path, std::span<const std::string_view> lines) {
  std::vector<Section> found;
  for (const std::string_view line : lines) {
    if (auto section = is_python(path) ? python_section(line) : plain_section(line))
      found.push_back(*std::move(section));
  }
  return found;
}

}  // namespace tessera::stack

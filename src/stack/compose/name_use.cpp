#include "stack/compose/name_use.h"

#include <algorithm>

#include "stack/compose/word_index.h"

namespace tessera::stack {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

// The word that ends before `at`, blanks skipped.
std::string_view word_before(std::string_view line, std::size_t at) {
  while (at > 0 && is_blank(line[at - 1])) --at;
  std::size_t begin = at;
  const auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
  };
  while (begin > 0 && is_word(line[begin - 1])) --begin;
  return line.substr(begin, at - begin);
}

// Where a name is meant for a compiler or interpreter. Prose, recipes and settings mention names without
// needing them.
bool is_code(std::string_view path) {
  static constexpr std::string_view kEndings[] = {".py",  ".pyi", ".c",  ".cc",  ".cpp",  ".cxx",  ".cu",
                                                  ".cuh", ".h",   ".hh", ".hpp", ".inc",  ".rs",   ".go",
                                                  ".js",  ".mjs", ".ts", ".tsx", ".java", ".cmake"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return path.ends_with(ending); }) ||
         path.ends_with("CMakeLists.txt");
}

}  // namespace

bool introduces(std::string_view line, std::size_t begin, std::size_t size) {
  static constexpr std::string_view kKeywords[] = {
      "def",   "class", "struct",  "enum",  "union",   "namespace", "define", "fn",  "func", "function",
      "trait", "type",  "typedef", "using", "concept", "interface", "const",  "let", "var"};
  const std::string_view before = word_before(line, begin);
  if (std::ranges::find(kKeywords, before) != std::end(kKeywords)) return true;
  std::size_t after = begin + size;
  std::size_t start = line.find_first_not_of(" \t");
  const bool quoted = begin > 0 && (line[begin - 1] == '"' || line[begin - 1] == '\'');
  if (quoted) {  // a key of a table: "NAME": …
    if (after >= line.size() || line[after] != line[begin - 1]) return false;
    ++after;
    while (after < line.size() && is_blank(line[after])) ++after;
    return after < line.size() && line[after] == ':' && start + 1 == begin;
  }
  // The first word of the statement, or a field of the object at hand.
  const std::string_view head = line.substr(start, begin - start);
  if (!head.empty() && head != "self." && head != "cls." && head != "this->" && head != "this." &&
      head != "export ")
    return false;
  const bool spaced = after < line.size() && is_blank(line[after]);
  while (after < line.size() && is_blank(line[after])) ++after;
  if (after >= line.size()) return false;
  // A keyword argument on a line of its own reads `name=value`, an assignment `name = value`.
  if (line[after] == '=')
    return (spaced || head == "export ") && (after + 1 >= line.size() || line[after + 1] != '=');
  return line[after] == ':' && (after + 1 >= line.size() || line[after + 1] != ':') && before != "else" &&
         before != "try";
}

NameUse find_names(const Listing& listing, const Ownership& ownership) {
  NameUse found;
  for (std::size_t at = 0; at < listing.atoms.size(); ++at) {
    const Atom& atom = listing.atoms[at];
    const AtomOwner& owner = ownership.atoms[at];
    const auto index = static_cast<std::int32_t>(at);
    if (!is_code(listing.file_of(atom).path)) continue;
    if (atom.kind == AtomKind::kCreate) {
      const std::string& path = listing.file_of(atom).path;
      const std::size_t slash = path.rfind('/');
      const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
      const std::string stem = name.substr(0, name.find('.'));
      if (stem.size() >= 3 && stem != "__init__") found.introduced[owner.whole].try_emplace(stem, index);
      continue;
    }
    const auto added = listing.added(atom);
    for (std::size_t i = 0; i < added.size(); ++i) {
      const std::int32_t bucket = owner.is_cut ? owner.added[i] : owner.whole;
      for_each_word(added[i], [&](std::string_view word, std::size_t begin) {
        if (!found.used[bucket].contains(word)) found.used[bucket].emplace(word, index);
        if (introduces(added[i], begin, word.size()) && !found.introduced[bucket].contains(word)) {
          found.introduced[bucket].emplace(word, index);
        }
      });
    }
  }
  return found;
}

}  // namespace tessera::stack

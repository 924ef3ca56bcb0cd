#include "stack/atom/atom.h"

#include <algorithm>

namespace tessera::stack {

std::string_view name_of(AtomKind kind) {
  switch (kind) {
    case AtomKind::kCreate:
      return "create";
    case AtomKind::kDelete:
      return "delete";
    case AtomKind::kType:
      return "type";
    case AtomKind::kMode:
      return "mode";
    case AtomKind::kBinary:
      return "binary";
    case AtomKind::kText:
      return "text";
  }
  return "unknown";
}

Text::Text(std::string content)
    : bytes(std::make_unique<const std::string>(std::move(content))), lines(split_lines(*bytes)) {}

std::span<const std::string_view> Listing::removed(const Atom& atom) const {
  const std::span<const std::string_view> lines = file_of(atom).old_text.lines;
  if (atom.kind != AtomKind::kText) return {};
  return lines.subspan(static_cast<std::size_t>(atom.at.old_begin),
                       static_cast<std::size_t>(atom.at.old_count));
}

std::span<const std::string_view> Listing::added(const Atom& atom) const {
  const std::span<const std::string_view> lines = file_of(atom).new_text.lines;
  if (atom.kind != AtomKind::kText) return {};
  return lines.subspan(static_cast<std::size_t>(atom.at.new_begin),
                       static_cast<std::size_t>(atom.at.new_count));
}

std::span<const Atom> Listing::atoms_of(const FileChange& file) const {
  return std::span(atoms).subspan(static_cast<std::size_t>(file.first_atom),
                                  static_cast<std::size_t>(file.atom_count));
}

const FileChange* Listing::find_file(std::string_view path) const {
  const auto at =
      std::ranges::lower_bound(files, path, {}, [](const FileChange& f) { return std::string_view(f.path); });
  return at != files.end() && at->path == path ? &*at : nullptr;
}

std::vector<std::int32_t> Listing::find(std::string_view prefix) const {
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < atoms.size(); ++i) {
    if (atoms[i].id.starts_with(prefix)) found.push_back(static_cast<std::int32_t>(i));
  }
  return found;
}

}  // namespace tessera::stack

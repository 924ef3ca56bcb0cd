// Atoms: the smallest units of difference between base and tree that the tool moves, and the listing of all
// of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stack/atom/section.h"
#include "stack/git/line_diff.h"
#include "stack/progress.h"
#include "stack/tree.h"

namespace tessera::stack {

enum class AtomKind {
  kCreate,  // a path appears; a text file appears empty, and one text atom fills it
  kDelete,  // a path vanishes, with all its bytes
  kType,    // file, symlink, submodule: one became another
  kMode,    // executable or not
  kBinary,  // other bytes, moved as one
  kText,    // one changed block of lines
};
std::string_view name_of(AtomKind kind);

// Bytes that stay where they are, and their lines.
struct Text {
  std::unique_ptr<const std::string> bytes = std::make_unique<const std::string>();
  std::vector<std::string_view> lines;  // into bytes

  Text() = default;
  explicit Text(std::string content);
};

// What a path is on one side.
struct FileState {
  FileMode mode = FileMode::kFile;
  Oid oid;
  friend bool operator==(const FileState&, const FileState&) = default;
};

// A path that differs.
struct FileChange {
  std::string path;
  std::optional<FileState> before;  // absent: created
  std::optional<FileState> after;   // absent: deleted
  bool is_text = false;             // both sides that exist are text, and line atoms were made
  Text old_text;                    // filled when is_text
  Text new_text;
  std::int32_t first_atom = 0;  // its atoms are Listing::atoms[first_atom, first_atom + atom_count)
  std::int32_t atom_count = 0;
};

struct Atom {
  std::string id;  // 16 hex digits: of path, kind, removed and added bytes, ordinal among equals
  AtomKind kind = AtomKind::kText;
  std::size_t short_size =
      4;                     // digits of the shortest prefix, at least 4, that no other id of the listing has
  std::int32_t file = 0;     // index into Listing::files
  LineChange at{};           // text only: where it is printed
  std::int32_t ordinal = 0;  // how many equal atoms of this file come before it
  bool is_reindent = false;  // removed and added lines are equal apart from leading white space
  std::vector<Section> sections{};  // that enclose its first changed line, outermost first
};

struct Unreadable {
  std::string path;
  std::string why;
};

struct Listing {
  std::vector<FileChange> files;       // sorted by path
  std::vector<Atom> atoms;             // by file, in it by position
  std::vector<Unreadable> unreadable;  // paths that differ and whose bytes cannot be had
  std::string fingerprint;             // "sha256:…" of base, tree, options and all ids in order

  const FileChange& file_of(const Atom& atom) const { return files[static_cast<std::size_t>(atom.file)]; }
  std::span<const std::string_view> removed(const Atom& atom) const;  // lines; empty unless text
  std::span<const std::string_view> added(const Atom& atom) const;
  std::span<const Atom> atoms_of(const FileChange& file) const;
  const FileChange* find_file(std::string_view path) const;
  // Indices of the atoms whose id begins with `prefix`.
  std::vector<std::int32_t> find(std::string_view prefix) const;
  // The shortest prefix of this atom's id, at least 4 digits, that no other atom has.
  std::string short_id(const Atom& atom) const { return atom.id.substr(0, atom.short_size); }
};

struct ListingOptions {
  DiffAlgorithm algorithm = DiffAlgorithm::kMyers;
  std::uint64_t text_limit = std::uint64_t{512} << 20;  // bytes; larger files are moved whole
  StageProgress progress{};                             // not part of the fingerprint
};

// What a block changes, wherever it stands: its removed and added bytes, slid up through the base when it can
// slide. Equal for two atoms of one path exactly when their ids differ in the ordinal at most.
std::string canonical_change(std::span<const std::string_view> old_lines,
                             std::span<const std::string_view> new_lines, const LineChange& change);

// The id that an atom would have with another ordinal. Text atoms only.
std::string id_with_ordinal(const Listing& listing, const Atom& atom, std::int32_t ordinal);

// All differences, none left out: every path whose mode or bytes differ gets atoms or stands in `unreadable`.
Result<Listing> make_listing(const Tree& base, const Tree& tree, const BlobStore& blobs,
                             const ListingOptions& options = {});

}  // namespace tessera::stack

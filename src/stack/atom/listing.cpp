// From two trees to atoms: paths that differ, kinds, blocks of lines, ids.
#include <algorithm>
#include <deque>
#include <map>

#include "stack/atom/atom.h"
#include "stack/atom/attributes.h"
#include "stack/object/digest.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kSniffed = 8000;  // bytes looked at for a NUL, as git does

enum class Shape { kFile, kSymlink, kGitlink };
Shape shape_of(FileMode mode) {
  if (mode == FileMode::kSymlink) return Shape::kSymlink;
  if (mode == FileMode::kGitlink) return Shape::kGitlink;
  return Shape::kFile;
}

bool looks_like_text(std::string_view bytes) {
  return bytes.substr(0, kSniffed).find('\0') == std::string_view::npos;
}

std::string joined(std::span<const std::string_view> lines) {
  std::string out;
  for (const std::string_view line : lines) out += line;
  return out;
}

// A pure insertion or deletion can often be drawn in several places. Slid up through the base as far as it
// goes, it is drawn in one only, whatever the heuristics of the day prefer.
std::string canonical_insertion(std::span<const std::string_view> base, std::size_t at,
                                std::span<const std::string_view> added) {
  std::deque<std::string_view> block(added.begin(), added.end());
  while (at > 0 && base[at - 1] == block.back()) {
    block.push_front(block.back());
    block.pop_back();
    --at;
  }
  const std::vector<std::string_view> lines(block.begin(), block.end());
  return joined(lines);
}

std::string canonical_deletion(std::span<const std::string_view> base, std::size_t at, std::size_t count) {
  while (at > 0 && base[at - 1] == base[at + count - 1]) --at;
  return joined(base.subspan(at, count));
}

// Removed and added bytes.
std::pair<std::string, std::string> canonical_parts(std::span<const std::string_view> old_lines,
                                                    std::span<const std::string_view> new_lines,
                                                    const LineChange& change) {
  const auto old_begin = static_cast<std::size_t>(change.old_begin);
  const auto removed = old_lines.subspan(old_begin, static_cast<std::size_t>(change.old_count));
  const auto added = new_lines.subspan(static_cast<std::size_t>(change.new_begin),
                                       static_cast<std::size_t>(change.new_count));
  if (removed.empty()) return {"", canonical_insertion(old_lines, old_begin, added)};
  if (added.empty()) return {canonical_deletion(old_lines, old_begin, removed.size()), ""};
  return {joined(removed), joined(added)};
}

bool is_reindent(std::span<const std::string_view> removed, std::span<const std::string_view> added) {
  if (removed.size() != added.size() || removed.empty()) return false;
  const auto stripped = [](std::string_view line) {
    const std::size_t begin = line.find_first_not_of(" \t");
    return begin == std::string_view::npos ? std::string_view("\n") : line.substr(begin);
  };
  return std::ranges::equal(removed, added, {}, stripped, stripped);
}

std::string id_of(std::string_view path, AtomKind kind, std::string_view out, std::string_view in,
                  std::int32_t ordinal) {
  Hasher hasher(Hasher::Kind::kSha256);
  hasher.add("atom1");
  for (const std::string_view part : {path, name_of(kind), out, in}) {
    hasher.add(std::string_view("\0", 1));
    hasher.add(part);
  }
  hasher.add(std::string_view("\0", 1));
  hasher.add(std::to_string(ordinal));
  return hasher.hex().substr(0, 16);
}

class Lister {
 public:
  Lister(const Tree& base, const BlobStore& blobs, const ListingOptions& options)
      : blobs_(blobs), options_(options), attributes_(TextAttributes::read(base, blobs)) {}

  Result<void> add(const TreeEntry* before, const TreeEntry* after) {
    if (before != nullptr && after != nullptr && before->mode == after->mode && before->oid == after->oid)
      return {};
    FileChange file;
    file.path = before != nullptr ? before->path : after->path;
    for (const TreeEntry* side : {before, after}) {
      // An unknown id cannot even be named in an atom; a known one whose bytes are missing can be moved
      // whole.
      if (side != nullptr && side->unreadable && (side->oid == Oid{} || side->mode != FileMode::kGitlink)) {
        listing.unreadable.push_back({file.path, *side->unreadable});
        return {};
      }
    }
    if (before != nullptr) file.before = FileState{before->mode, before->oid};
    if (after != nullptr) file.after = FileState{after->mode, after->oid};
    file.first_atom = static_cast<std::int32_t>(listing.atoms.size());
    TS_TRY(add_atoms(file, before, after));
    file.atom_count = static_cast<std::int32_t>(listing.atoms.size()) - file.first_atom;
    listing.files.push_back(std::move(file));
    return {};
  }

  Listing listing;

 private:
  Result<void> add_atoms(FileChange& file, const TreeEntry* before, const TreeEntry* after) {
    if (after == nullptr) {
      add_fact(file, AtomKind::kDelete, fact(*file.before), "");
      return {};
    }
    if (before != nullptr && shape_of(before->mode) != shape_of(after->mode)) {
      add_fact(file, AtomKind::kType, fact(*file.before), fact(*file.after));
      return {};
    }
    if (before != nullptr && before->mode != after->mode) {
      add_fact(file, AtomKind::kMode, mode_text(before->mode), mode_text(after->mode));
    }
    if (before != nullptr && before->oid == after->oid) return {};
    TS_TRY(read_text(file, before, after));
    if (before == nullptr)
      add_fact(file, AtomKind::kCreate, "", file.is_text ? mode_text(after->mode) : fact(*file.after));
    if (file.is_text) {
      add_blocks(file);
    } else if (before != nullptr) {
      add_fact(file, AtomKind::kBinary, to_hex(before->oid), to_hex(after->oid));
    }
    return {};
  }

  static std::string fact(const FileState& state) { return mode_text(state.mode) + ' ' + to_hex(state.oid); }

  Result<void> read_text(FileChange& file, const TreeEntry* before, const TreeEntry* after) {
    if (shape_of(after->mode) != Shape::kFile) return {};
    const std::optional<bool> forced = attributes_.is_text(file.path);
    if (forced == false) return {};
    for (const TreeEntry* side : {before, after}) {
      if (side != nullptr && side->size > options_.text_limit) return {};
    }
    std::string old_bytes;
    if (before != nullptr) {
      TS_TRY(std::string read, blobs_.read(before->oid));
      old_bytes = std::move(read);
    }
    TS_TRY(std::string new_bytes, blobs_.read(after->oid));
    if (forced != true && !(looks_like_text(old_bytes) && looks_like_text(new_bytes))) return {};
    file.is_text = true;
    file.old_text = Text(std::move(old_bytes));
    file.new_text = Text(std::move(new_bytes));
    return {};
  }

  void add_blocks(const FileChange& file) {
    const std::span<const std::string_view> old_lines = file.old_text.lines;
    const std::span<const std::string_view> new_lines = file.new_text.lines;
    for (const LineChange& change :
         diff_lines(*file.old_text.bytes, *file.new_text.bytes, options_.algorithm)) {
      const auto old_begin = static_cast<std::size_t>(change.old_begin);
      const auto new_begin = static_cast<std::size_t>(change.new_begin);
      const auto removed = old_lines.subspan(old_begin, static_cast<std::size_t>(change.old_count));
      const auto added = new_lines.subspan(new_begin, static_cast<std::size_t>(change.new_count));
      Atom atom{.id = {}, .kind = AtomKind::kText, .at = change, .is_reindent = is_reindent(removed, added)};
      const auto [out, in] = canonical_parts(old_lines, new_lines, change);
      const auto& side = added.empty() ? old_lines : new_lines;
      const auto& lines = added.empty() ? removed : added;
      const auto first = std::ranges::find_if(
          lines, [](std::string_view l) { return l.find_first_not_of(" \t\r\n") != l.npos; });
      const auto offset = first == lines.end() ? 0 : first - lines.begin();
      atom.sections = enclosing_sections(
          file.path, side, (added.empty() ? old_begin : new_begin) + static_cast<std::size_t>(offset));
      finish(std::move(atom), file.path, out, in);
    }
  }

  void add_fact(const FileChange& file, AtomKind kind, const std::string& out, const std::string& in) {
    finish(Atom{.id = {}, .kind = kind}, file.path, out, in);
  }

  void finish(Atom atom, const std::string& path, const std::string& out, const std::string& in) {
    std::string text;
    for (const std::string_view part :
         {std::string_view(path), name_of(atom.kind), std::string_view(out), std::string_view(in)}) {
      text += '\0';
      text += part;
    }
    if (path != ordinal_path_) {
      ordinals_.clear();
      ordinal_path_ = path;
    }
    atom.ordinal = ordinals_[text]++;
    atom.file = static_cast<std::int32_t>(listing.files.size());
    atom.id = id_of(path, atom.kind, out, in, atom.ordinal);
    listing.atoms.push_back(std::move(atom));
  }

  const BlobStore& blobs_;
  const ListingOptions& options_;
  TextAttributes attributes_;
  std::map<std::string, std::int32_t> ordinals_;  // of the file at hand
  std::string ordinal_path_;
};

// Of ids in order, only the neighbours can share a long prefix.
void find_short_sizes(std::vector<Atom>& atoms) {
  std::vector<Atom*> by_id;
  for (Atom& atom : atoms) by_id.push_back(&atom);
  std::ranges::sort(by_id, {}, &Atom::id);
  for (std::size_t i = 1; i < by_id.size(); ++i) {
    const std::string& one = by_id[i - 1]->id;
    const auto differs =
        static_cast<std::size_t>(std::ranges::mismatch(one, by_id[i]->id).in1 - one.begin()) + 1;
    by_id[i - 1]->short_size = std::max(by_id[i - 1]->short_size, differs);
    by_id[i]->short_size = std::max(by_id[i]->short_size, differs);
  }
}

}  // namespace

std::string canonical_change(std::span<const std::string_view> old_lines,
                             std::span<const std::string_view> new_lines, const LineChange& change) {
  const auto [out, in] = canonical_parts(old_lines, new_lines, change);
  return std::to_string(out.size()) + ':' + out + in;
}

std::string id_with_ordinal(const Listing& listing, const Atom& atom, std::int32_t ordinal) {
  const FileChange& file = listing.file_of(atom);
  const auto [out, in] = canonical_parts(file.old_text.lines, file.new_text.lines, atom.at);
  return id_of(file.path, atom.kind, out, in, ordinal);
}

Result<Listing> make_listing(const Tree& base, const Tree& tree, const BlobStore& blobs,
                             const ListingOptions& options) {
  Lister lister(base, blobs, options);
  auto before = base.entries.begin();
  auto after = tree.entries.begin();
  Stage stage(options.progress, "comparing files", std::max(base.entries.size(), tree.entries.size()));
  while (before != base.entries.end() || after != tree.entries.end()) {
    if (before != base.entries.end()) stage.step();
    const bool only_before =
        after == tree.entries.end() || (before != base.entries.end() && before->path < after->path);
    const bool only_after = !only_before && (before == base.entries.end() || after->path < before->path);
    TS_TRY(lister.add(only_after ? nullptr : &*before, only_before ? nullptr : &*after));
    if (!only_after) ++before;
    if (!only_before) ++after;
  }
  Listing listing = std::move(lister.listing);
  find_short_sizes(listing.atoms);
  Hasher hasher(Hasher::Kind::kSha256);
  hasher.add("listing1\n" + tree_digest(base.entries) + '\n' + tree_digest(tree.entries) + '\n' +
             std::to_string(static_cast<int>(options.algorithm)) + '\n' + std::to_string(options.text_limit) +
             '\n');
  for (const Atom& atom : listing.atoms) hasher.add(atom.id + '\n');
  listing.fingerprint = "sha256:" + hasher.hex();
  return listing;
}

}  // namespace tessera::stack

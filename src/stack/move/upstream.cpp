#include "stack/move/upstream.h"

#include <algorithm>
#include <map>
#include <set>

#include "stack/git/line_diff.h"

namespace tessera::stack {
namespace {

// How often each change occurs between two texts.
std::map<std::string, std::int32_t> changes_of(const Text& before, const Text& after,
                                               DiffAlgorithm algorithm) {
  std::map<std::string, std::int32_t> found;
  for (const LineChange& change : diff_lines(*before.bytes, *after.bytes, algorithm))
    ++found[canonical_change(before.lines, after.lines, change)];
  return found;
}

std::int32_t times(std::span<const std::string_view> text, std::span<const std::string_view> block) {
  std::int32_t count = 0;
  for (std::size_t i = 0; i + block.size() <= text.size(); ++i)
    count += std::ranges::equal(text.subspan(i, block.size()), block);
  return count;
}

// Enough to be recognised: a lone brace or `return` stands everywhere.
bool is_telling(std::span<const std::string_view> lines) {
  std::size_t letters = 0;
  for (const std::string_view line : lines) {
    letters += static_cast<std::size_t>(
        std::ranges::count_if(line, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }));
  }
  return letters >= 16;
}

class Finder {
 public:
  Finder(const Workspace& workspace, const Tree& target)
      : workspace_(workspace), listing_(workspace.listing), target_(target) {}

  Result<std::vector<UpstreamFinding>> find() {
    for (const FileChange& file : listing_.files) {
      TS_TRY(look_at(file));
    }
    return std::move(found_);
  }

 private:
  Result<void> look_at(const FileChange& file) {
    const TreeEntry* there = target_.find(file.path);
    const std::optional<FileState> state =
        there == nullptr ? std::nullopt : std::optional(FileState{there->mode, there->oid});
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      if (state == file.after) found_.push_back({at, UpstreamLevel::kFile, {}});
    }
    if (state == file.after) return {};
    std::map<std::string, std::int32_t> upstream;
    std::optional<Text> text;
    if (file.is_text && state && there->mode != FileMode::kSymlink && !there->unreadable) {
      TS_TRY(std::string bytes, workspace_.repository.read(state->oid));
      text.emplace(std::move(bytes));
      upstream = changes_of(file.old_text, *text, workspace_.plan().algorithm);
    }
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      const Atom& atom = listing_.atoms[static_cast<std::size_t>(at)];
      if (atom.kind == AtomKind::kMode && state && file.before->mode != state->mode &&
          state->mode == file.after->mode)
        found_.push_back({at, UpstreamLevel::kAtom, {}});
      if (atom.kind == AtomKind::kDelete && !state) found_.push_back({at, UpstreamLevel::kAtom, {}});
      if ((atom.kind == AtomKind::kBinary || atom.kind == AtomKind::kCreate) && state && !file.is_text &&
          state->oid == file.after->oid) {
        found_.push_back({at, UpstreamLevel::kAtom, {}});
      }
      if (atom.kind == AtomKind::kCreate && file.is_text && state)
        found_.push_back({at, UpstreamLevel::kAtom, {}});
      if (atom.kind != AtomKind::kText || !text) continue;
      const auto same = upstream.find(canonical_change(file.old_text.lines, file.new_text.lines, atom.at));
      if (same != upstream.end() && same->second > 0) {
        --same->second;
        found_.push_back({at, UpstreamLevel::kAtom, {}});
        continue;
      }
      const auto added = listing_.added(atom);
      const auto removed = listing_.removed(atom);
      const bool was_there = times(file.old_text.lines, added) > 0;
      const bool removed_is_gone =
          removed.empty() || !is_telling(removed) || times(text->lines, removed) == 0;
      if (!added.empty() && is_telling(added) && !was_there && times(text->lines, added) == 1 &&
          removed_is_gone)
        found_.push_back({at, UpstreamLevel::kReverse, {}});
    }
    return {};
  }

  const Workspace& workspace_;
  const Listing& listing_;
  const Tree& target_;
  std::vector<UpstreamFinding> found_;
};

// For each finding the newest commit that brought it to the path: history is walked once, newest first.
Result<void> find_commits(const Workspace& workspace, const Commit& target,
                          std::vector<UpstreamFinding>& found) {
  std::map<std::string, std::vector<std::size_t>> by_path;
  for (std::size_t i = 0; i < found.size(); ++i) {
    by_path[workspace.listing.file_of(workspace.listing.atoms[static_cast<std::size_t>(found[i].atom)]).path]
        .push_back(i);
  }
  if (by_path.empty()) return {};
  const Repository& repository = workspace.repository;
  const auto walked = repository.walk(target.id, {workspace.base.id});
  if (!walked) return {};  // a shallow history: no commit can be named, the finding stands
  std::set<std::size_t> settled;
  Stage stage(workspace.progress, "who brought it", walked->size());
  for (const Oid& id : *walked) {
    stage.step();
    TS_TRY(const Commit commit, repository.read_commit(id));
    if (commit.parents.size() != 1) continue;
    for (const auto& [path, indices] : by_path) {
      const auto now = repository.find_entry(id, path);
      const auto before = repository.find_entry(commit.parents.front(), path);
      const bool same = now.has_value() == before.has_value() &&
                        (!now || (now->oid == before->oid && now->mode == before->mode));
      if (same) continue;
      const FileChange& file = *workspace.listing.find_file(path);
      std::optional<Text> new_text;
      std::optional<Text> old_text;
      if (file.is_text && now) {
        TS_TRY(std::string bytes, repository.read(now->oid));
        new_text.emplace(std::move(bytes));
      }
      if (file.is_text && before) {
        TS_TRY(std::string bytes, repository.read(before->oid));
        old_text.emplace(std::move(bytes));
      }
      for (const std::size_t index : indices) {
        if (settled.contains(index)) continue;
        const Atom& atom = workspace.listing.atoms[static_cast<std::size_t>(found[index].atom)];
        bool is_here = false;
        if (atom.kind != AtomKind::kText) {
          is_here = true;  // the newest commit that gave the path its present state
        } else {
          const auto lines = workspace.listing.added(atom).empty() ? workspace.listing.removed(atom)
                                                                   : workspace.listing.added(atom);
          const bool adds = !workspace.listing.added(atom).empty();
          const std::int32_t after = new_text ? times(new_text->lines, lines) : 0;
          const std::int32_t earlier = old_text ? times(old_text->lines, lines) : 0;
          is_here = adds ? after > earlier : after < earlier;
        }
        if (is_here) {
          found[index].commit = id;
          settled.insert(index);
        }
      }
    }
    if (settled.size() == found.size()) break;
  }
  return {};
}

}  // namespace

std::string_view name_of(UpstreamLevel level) {
  switch (level) {
    case UpstreamLevel::kFile:
      return "file";
    case UpstreamLevel::kAtom:
      return "atom";
    case UpstreamLevel::kReverse:
      return "reverse";
  }
  return "unknown";
}

Result<std::vector<UpstreamFinding>> find_upstream(const Workspace& workspace, const Commit& target) {
  TS_TRY(const Tree tree, workspace.repository.read_tree(target.id));
  TS_TRY(std::vector<UpstreamFinding> found, Finder(workspace, tree).find());
  TS_TRY(find_commits(workspace, target, found));
  return found;
}

}  // namespace tessera::stack

#include "stack/move/target.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/check.h"
#include "stack/git/merge3.h"
#include "stack/move/line_map.h"
#include "stack/move/rename.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

std::string joined(std::span<const std::string_view> lines) {
  std::string out;
  for (const std::string_view line : lines) out += line;
  return out;
}

std::vector<std::string> owned(std::string_view text) {
  const auto lines = split_lines(text);
  return {lines.begin(), lines.end()};
}

std::string conflict_id(std::string_view base, std::string_view ours, std::string_view theirs) {
  Hasher hasher(Hasher::Kind::kSha256);
  for (const std::string_view part : {base, ours, theirs}) {
    hasher.add(std::to_string(part.size()) + "\n");
    hasher.add(part);
  }
  return "c:" + hasher.hex().substr(0, 16);
}

class Grounder {
 public:
  Grounder(const Workspace& workspace, const Tree& target)
      : workspace_(workspace), listing_(workspace.listing), target_(target) {}

  Result<TargetGround> make() {
    Stage stage(workspace_.progress, "placing atoms", listing_.files.size());
    for (const FileChange& file : listing_.files) {
      stage.step();
      FileGround ground;
      TS_TRY(place(file, ground));
      out_.ground.files.push_back(std::move(ground));
    }
    return std::move(out_);
  }

 private:
  const Atom& atom(std::int32_t at) const { return listing_.atoms[static_cast<std::size_t>(at)]; }

  Result<void> place(const FileChange& file, FileGround& ground) {
    const TreeEntry* there = target_.find(file.path);
    ground.path = file.path;
    if (there == nullptr && file.before && file.after) {
      TS_TRY(const std::optional<Rename> renamed, find_rename(workspace_, target_, file));
      if (renamed) {
        there = target_.find(renamed->path);
        ground.path = renamed->path;
        out_.renamed.push_back(printable(file.path) + " -> " + printable(renamed->path) + ", " +
                               std::to_string(renamed->percent) + " percent");
      }
    }
    if (there != nullptr) ground.state = FileState{there->mode, there->oid};
    const std::optional<FileState>& state = ground.state;
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      ground.placements.push_back({.kind = PlacementKind::kSame, .begin = atom(at).at.old_begin});
      if (atom(at).kind != AtomKind::kText) place_fact(file, at, state, ground.placements.back());
    }
    if (!file.is_text) return {};
    return place_text(file, state, ground);
  }

  // Non-text atoms: the target is as the base was, or as the tree is, or the two clash.
  void place_fact(const FileChange& file, std::int32_t at, const std::optional<FileState>& state,
                  Placement& placement) {
    bool same = false;
    bool done = false;
    switch (atom(at).kind) {
      case AtomKind::kCreate:
        same = !state;
        done = state &&
               (file.is_text ? true : *state == *file.after);  // of a text file only the lines may clash
        break;
      case AtomKind::kDelete:
        same = state == file.before;
        done = !state;
        break;
      case AtomKind::kMode:
        same = state && state->mode == file.before->mode;
        done = state && state->mode == file.after->mode;
        break;
      case AtomKind::kBinary:
        same = state && state->oid == file.before->oid;
        done = state && state->oid == file.after->oid;
        break;
      case AtomKind::kType:
        same = state == file.before;
        done = state == file.after;
        break;
      case AtomKind::kText:
        break;
    }
    if (done) {
      placement.kind = PlacementKind::kDone;
    } else if (!same) {
      clash(file, at, placement,
            "The target has another version of this path, and " + std::string(name_of(atom(at).kind)) +
                " atoms move as a whole.");
    }
  }

  void clash(const FileChange& file, std::int32_t at, Placement& placement, std::string why) {
    placement.kind = PlacementKind::kConflict;
    placement.conflict = conflict_id(file.path, atom(at).id, why);
    out_.conflicts.push_back({.id = placement.conflict,
                              .path = file.path,
                              .atoms = {at},
                              .why = std::move(why),
                              .base = {},
                              .ours = {},
                              .theirs = {}});
  }

  Result<void> place_text(const FileChange& file, const std::optional<FileState>& state, FileGround& ground) {
    const auto each_text = [&](auto&& act) {
      for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
        if (atom(at).kind == AtomKind::kText)
          act(at, ground.placements[static_cast<std::size_t>(at - file.first_atom)]);
      }
    };
    ground.base_text = &file.old_text;
    const Oid before = file.before ? file.before->oid : Oid{};
    if (state ? state->oid == before : !file.before) return {};  // as in the base
    if (state && file.after && state->oid == file.after->oid) {
      each_text([](std::int32_t, Placement& p) { p.kind = PlacementKind::kDone; });
      ground.base_text = nullptr;  // stays as it is there
      return {};
    }
    if (!state) {
      ground.base_text = nullptr;
      each_text([&](std::int32_t at, Placement& p) {
        clash(file, at, p, "The target has deleted this path, and the tree changes it.");
      });
      return {};
    }
    TS_TRY(std::string bytes, workspace_.repository.read(state->oid));
    if (bytes.substr(0, 8000).find('\0') != std::string::npos || state->mode == FileMode::kSymlink) {
      ground.base_text = nullptr;
      each_text([&](std::int32_t at, Placement& p) {
        clash(file, at, p, "The path is no text file at the target.");
      });
      return {};
    }
    ground.base_text = nullptr;
    ground.own_text = Text(std::move(bytes));
    const LineMap map(*file.old_text.bytes, *ground.own_text->bytes);
    mark_done(file, map, *ground.own_text, ground);
    place_lines(file, map, *ground.own_text, ground);
    return {};
  }

  // The very change that an atom makes, made upstream too.
  void mark_done(const FileChange& file, const LineMap& map, const Text& text, FileGround& ground) {
    std::map<std::string, std::int32_t> made;
    for (const LineChange& change : map.changes())
      ++made[canonical_change(file.old_text.lines, text.lines, change)];
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      if (atom(at).kind != AtomKind::kText) continue;
      const auto found = made.find(canonical_change(file.old_text.lines, file.new_text.lines, atom(at).at));
      if (found == made.end() || found->second == 0 ||
          map.touching(atom(at).at.old_begin, atom(at).at.old_count).empty())
        continue;
      --found->second;
      ground.placements[static_cast<std::size_t>(at - file.first_atom)].kind = PlacementKind::kDone;
    }
  }

  void place_lines(const FileChange& file, const LineMap& map, const Text& text, FileGround& ground) {
    // Atoms that upstream touched, in groups: whoever shares an upstream change, or stands within another's
    // region, is in one.
    struct Group {
      std::int32_t begin;  // of the base
      std::int32_t end;
      std::vector<std::int32_t> atoms;
    };
    std::vector<Group> groups;
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      if (atom(at).kind != AtomKind::kText) continue;
      Placement& placement = ground.placements[static_cast<std::size_t>(at - file.first_atom)];
      if (placement.kind == PlacementKind::kDone) continue;
      const LineChange& own = atom(at).at;
      const std::vector<LineChange> touching = map.touching(own.old_begin, own.old_count);
      if (touching.empty()) {
        placement.kind = PlacementKind::kMapped;
        placement.begin = map.position(own.old_begin);
        continue;
      }
      Group group{own.old_begin, own.old_begin + own.old_count, {at}};
      for (const LineChange& change : touching) {
        group.begin = std::min(group.begin, change.old_begin);
        group.end = std::max(group.end, change.old_begin + change.old_count);
      }
      if (!groups.empty() && groups.back().end >= group.begin) {
        groups.back().end = std::max(groups.back().end, group.end);
        groups.back().begin = std::min(groups.back().begin, group.begin);
        groups.back().atoms.push_back(at);
      } else {
        groups.push_back(std::move(group));
      }
    }
    for (const Group& group : groups) settle(file, map, text, ground, group.begin, group.end, group.atoms);
  }

  void settle(const FileChange& file, const LineMap& map, const Text& text, FileGround& ground,
              std::int32_t begin, std::int32_t end, const std::vector<std::int32_t>& atoms) {
    // A region may not cut an upstream change in two; those that reach over its ends widen it.
    for (bool grew = true; grew;) {
      grew = false;
      for (const LineChange& change : map.touching(begin, end - begin)) {
        if (change.old_begin < begin || change.old_begin + change.old_count > end) {
          begin = std::min(begin, change.old_begin);
          end = std::max(end, change.old_begin + change.old_count);
          grew = true;
        }
      }
    }
    std::int32_t target_begin = begin;
    std::int32_t growth = 0;
    for (const LineChange& change : map.changes()) {
      const std::int32_t grown = change.new_count - change.old_count;
      if (change.old_begin >= begin && change.old_begin + change.old_count <= end)
        growth += grown;
      else if (change.old_begin < begin)
        target_begin += grown;
    }
    const std::int32_t target_count = end - begin + growth;
    const auto slice = [](const std::vector<std::string_view>& lines, std::int32_t from, std::int32_t count) {
      return std::span(lines).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(count));
    };
    const std::string base = joined(slice(file.old_text.lines, begin, end - begin));
    const std::string ours = joined(slice(text.lines, target_begin, target_count));
    // Theirs has this group's atoms and no others: whatever else stands within the region is done at the
    // target.
    std::string theirs;
    std::int32_t next = begin;
    for (const std::int32_t at : atoms) {
      theirs += joined(slice(file.old_text.lines, next, atom(at).at.old_begin - next));
      theirs += joined(listing_.added(atom(at)));
      next = atom(at).at.old_begin + atom(at).at.old_count;
    }
    theirs += joined(slice(file.old_text.lines, next, end - next));

    MergedText merged = merge_texts(base, ours, theirs);
    PlacementKind kind = PlacementKind::kMerged;
    std::string id;
    if (!merged.is_clean) {
      id = conflict_id(base, ours, theirs);
      Conflict conflict{.id = id,
                        .path = file.path,
                        .atoms = atoms,
                        .why = "Upstream changed these lines, or the ones next to them.",
                        .has_texts = true,
                        .base = base,
                        .ours = ours,
                        .theirs = theirs,
                        .target_begin = target_begin,
                        .target_count = target_count};
      kind = PlacementKind::kConflict;
      const auto& stored = workspace_.plan().resolutions;
      const auto resolution = std::ranges::find(stored, id, &Resolution::conflict);
      if (resolution != stored.end()) {
        if (auto text_given = load_text(workspace_.file.beside(resolution->file))) {
          merged.text = *std::move(text_given);
          kind = PlacementKind::kRemembered;
          conflict.is_resolved = true;
        }
      }
      out_.conflicts.push_back(std::move(conflict));
    } else if (merged.text == ours) {
      kind = PlacementKind::kDone;
    }
    for (const std::int32_t at : atoms) {
      Placement& placement = ground.placements[static_cast<std::size_t>(at - file.first_atom)];
      placement.kind = kind;
      placement.conflict = id;
      if (kind == PlacementKind::kMerged || kind == PlacementKind::kRemembered) {
        placement.together = atoms;
        if (at == atoms.front()) placement.adapted = {Patch{target_begin, target_count, owned(merged.text)}};
      }
    }
  }

  const Workspace& workspace_;
  const Listing& listing_;
  const Tree& target_;
  TargetGround out_;
};

}  // namespace

Result<TargetGround> ground_on(const Workspace& workspace, const Commit& target) {
  if (target.tree == workspace.base.tree)
    return TargetGround{.ground = ground_on_base(workspace.listing), .conflicts = {}, .renamed = {}};
  TS_TRY(const Tree tree, workspace.repository.read_tree(target.id));
  return Grounder(workspace, tree).make();
}

Result<void> find_upstream_commits(const Workspace& workspace, const Commit& target,
                                   std::vector<Conflict>& conflicts) {
  if (conflicts.empty()) return {};
  const Repository& repository = workspace.repository;
  TS_TRY(const std::vector<Oid> commits, repository.walk(target.id, {workspace.base.id}));
  struct Tracked {
    std::int32_t begin;
    std::int32_t count;
    bool is_lost = false;  // the path did not exist further back
  };
  std::vector<Tracked> regions;
  for (const Conflict& conflict : conflicts)
    regions.push_back({conflict.target_begin, conflict.target_count});
  Stage stage(workspace.progress, "commits behind conflicts", commits.size());
  for (const Oid& id : commits) {
    stage.step();
    TS_TRY(const Commit commit, repository.read_commit(id));
    if (commit.parents.size() != 1) continue;  // what a merge brought is found in the commits it brought
    for (std::size_t i = 0; i < conflicts.size(); ++i) {
      if (regions[i].is_lost) continue;
      const auto now = repository.find_entry(id, conflicts[i].path);
      const auto before = repository.find_entry(commit.parents.front(), conflicts[i].path);
      const bool same = now.has_value() == before.has_value() && (!now || now->oid == before->oid);
      if (same) continue;
      if (!conflicts[i].has_texts || !now || !before) {
        conflicts[i].upstream.push_back(id);
        regions[i].is_lost = !before;
        continue;
      }
      TS_TRY(const std::string new_text, repository.read(now->oid));
      TS_TRY(const std::string old_text, repository.read(before->oid));
      // Backwards: the newer text is the map's old side, so that the region can be carried on to the parent.
      const LineMap map(new_text, old_text);
      if (!map.touching(regions[i].begin, regions[i].count).empty()) conflicts[i].upstream.push_back(id);
      const std::int32_t end = map.position(regions[i].begin + regions[i].count);
      regions[i].begin = map.position(regions[i].begin);
      regions[i].count = std::max(0, end - regions[i].begin);
    }
  }
  return {};
}

}  // namespace tessera::stack

#include "stack/compose/composer.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace tessera::stack {
namespace {

// Where each added line stands: before removed line anchor[j], or behind all of them. Never decreasing, so
// that the added lines keep their order and the full set is exact.
std::vector<std::size_t> anchors_of(const AtomOwner& owner) {
  std::map<std::int32_t, std::vector<std::size_t>> removed_by;
  for (std::size_t i = 0; i < owner.removed.size(); ++i) removed_by[owner.removed[i]].push_back(i);
  std::map<std::int32_t, std::size_t> met;  // how many added lines of a piece were seen
  std::vector<std::size_t> anchors;
  std::size_t last = 0;
  for (const std::int32_t piece : owner.added) {
    const auto own = removed_by.find(piece);
    if (own != removed_by.end()) {
      const std::size_t pair = std::min(met[piece]++, own->second.size() - 1);
      last = std::max(last, own->second[pair] + 1);
    }
    anchors.push_back(last);
  }
  return anchors;
}

}  // namespace

std::vector<std::string_view> compose_cut(std::span<const std::string_view> removed,
                                          std::span<const std::string_view> added, const AtomOwner& owner,
                                          const BucketSet& chosen) {
  TS_CHECK(owner.removed.size() == removed.size() && owner.added.size() == added.size(), removed.size(),
           added.size());
  const std::vector<std::size_t> anchors = anchors_of(owner);
  std::vector<std::string_view> out;
  std::size_t next = 0;
  for (std::size_t i = 0; i <= removed.size(); ++i) {
    for (; next < added.size() && anchors[next] == i; ++next) {
      if (chosen.contains(owner.added[next])) out.push_back(added[next]);
    }
    if (i < removed.size() && !chosen.contains(owner.removed[i])) out.push_back(removed[i]);
  }
  return out;
}

// What replaces a range of the ground's lines.
struct Composer::Block {
  std::int32_t begin = 0;
  std::int32_t count = 0;
  std::vector<std::string_view> lines;
};

std::vector<std::int32_t> Composer::owners_of(std::size_t file) const {
  const FileChange& change = listing_.files[file];
  std::set<std::int32_t> all;
  for (std::int32_t at = change.first_atom; at < change.first_atom + change.atom_count; ++at) {
    for (const std::int32_t owner : ownership_.atoms[static_cast<std::size_t>(at)].owners())
      all.insert(owner);
  }
  for (const EditRegion& region : regions_) {
    if (region.file == static_cast<std::int32_t>(file)) all.insert(region.bucket);
  }
  return {all.begin(), all.end()};
}

// The edit that decides over this atom's region: the last chosen bucket that touches the region wins; if it
// is an owner without an edit, the atoms are composed as they are.
const EditRegion* Composer::edit_at(std::int32_t atom, const BucketSet& chosen) const {
  const EditRegion* best = nullptr;
  std::int32_t best_rank = -1;
  for (const EditRegion& region : regions_) {
    if (atom < region.first_atom || atom > region.last_atom) continue;
    if (chosen.unassigned) return nullptr;  // everything is chosen: the tree itself
    for (const std::int32_t owner : region.owners) {
      const std::int32_t rank = rank_[static_cast<std::size_t>(owner)];
      if (chosen.contains(owner) && rank > best_rank) {
        best_rank = rank;
        best = nullptr;
      }
    }
    const std::int32_t rank = rank_[static_cast<std::size_t>(region.bucket)];
    if (chosen.contains(region.bucket) && rank >= best_rank) {
      best_rank = rank;
      best = &region;
    }
  }
  return best;
}

std::optional<std::string> Composer::compose_text(std::size_t file, const BucketSet& chosen,
                                                  std::vector<std::int32_t>& conflicts) const {
  const FileChange& change = listing_.files[file];
  const FileGround& ground = ground_.files[file];
  const std::vector<std::string_view>& base = ground.text()->lines;
  std::vector<Block> blocks;
  for (std::int32_t at = change.first_atom; at < change.first_atom + change.atom_count; ++at) {
    const Atom& atom = listing_.atoms[static_cast<std::size_t>(at)];
    if (atom.kind != AtomKind::kText) continue;
    const AtomOwner& owner = ownership_.atoms[static_cast<std::size_t>(at)];
    const Placement& placement = ground.placements[static_cast<std::size_t>(at - change.first_atom)];
    if (const EditRegion* region = edit_at(at, chosen)) {
      // The whole region at once; it must stand in one piece at the target.
      const Atom& last = listing_.atoms[static_cast<std::size_t>(region->last_atom)];
      for (std::int32_t inside = at; inside <= region->last_atom; ++inside) {
        const Placement& other = ground.placements[static_cast<std::size_t>(inside - change.first_atom)];
        const std::int32_t distance =
            listing_.atoms[static_cast<std::size_t>(inside)].at.old_begin - atom.at.old_begin;
        const bool fits = (other.kind == PlacementKind::kSame || other.kind == PlacementKind::kMapped) &&
                          other.begin - placement.begin == distance;
        if (!fits) conflicts.push_back(inside);
      }
      blocks.push_back({placement.begin, last.at.old_begin + last.at.old_count - atom.at.old_begin,
                        split_lines(region->text)});
      at = region->last_atom;
      continue;
    }
    const std::vector<std::int32_t> owners = owner.owners();
    if (std::ranges::none_of(owners, [&](std::int32_t o) { return chosen.contains(o); })) continue;
    switch (placement.kind) {
      case PlacementKind::kDone:
        break;
      case PlacementKind::kConflict:
        conflicts.push_back(at);
        break;
      case PlacementKind::kMerged:
      case PlacementKind::kRemembered:
        // Adapted as one, with all atoms that upstream's change touched: parts of it cannot be told apart any
        // more.
        for (const std::int32_t other : placement.together) {
          const std::vector<std::int32_t> all = ownership_.atoms[static_cast<std::size_t>(other)].owners();
          if (!std::ranges::all_of(all, [&](std::int32_t o) { return chosen.contains(o); }))
            conflicts.push_back(other);
        }
        for (const Patch& patch : placement.adapted)
          blocks.push_back({patch.begin, patch.count, {patch.lines.begin(), patch.lines.end()}});
        break;
      case PlacementKind::kSame:
      case PlacementKind::kMapped: {
        const auto removed = listing_.removed(atom);
        const auto added = listing_.added(atom);
        for (std::size_t i = 0; i < removed.size(); ++i) {
          const std::size_t line = static_cast<std::size_t>(placement.begin) + i;
          TS_CHECK(line < base.size() && base[line] == removed[i], change.path, atom.id, line);
        }
        Block block{placement.begin, atom.at.old_count, {added.begin(), added.end()}};
        if (owner.is_cut) block.lines = compose_cut(removed, added, owner, chosen);
        blocks.push_back(std::move(block));
        break;
      }
    }
  }
  if (!conflicts.empty()) return std::nullopt;
  std::ranges::stable_sort(blocks, {}, &Block::begin);
  std::string out;
  out.reserve(ground.text()->bytes->size() + change.new_text.bytes->size());
  const auto emit = [&](std::string_view line) {
    // Only pieces and moves can put a line behind the last one of a text that lacks its line end.
    if (!out.empty() && out.back() != '\n') out += '\n';
    out += line;
  };
  std::size_t next = 0;
  for (const Block& block : blocks) {
    const auto begin = static_cast<std::size_t>(block.begin);
    TS_CHECK(begin >= next, change.path, begin, next);
    for (; next < begin; ++next) emit(base[next]);
    for (const std::string_view line : block.lines) emit(line);
    next = begin + static_cast<std::size_t>(block.count);
  }
  for (; next < base.size(); ++next) emit(base[next]);
  return out;
}

ComposedFile Composer::compose(std::size_t file, const BucketSet& chosen) const {
  const FileChange& change = listing_.files[file];
  const FileGround& ground = ground_.files[file];
  ComposedFile out{.path = ground.path, .mode = std::nullopt, .bytes = {}, .oid = {}};
  bool exists = ground.state.has_value();
  FileState state = ground.state.value_or(FileState{});
  for (std::int32_t at = change.first_atom; at < change.first_atom + change.atom_count; ++at) {
    const Atom& atom = listing_.atoms[static_cast<std::size_t>(at)];
    if (atom.kind == AtomKind::kText ||
        !chosen.contains(ownership_.atoms[static_cast<std::size_t>(at)].whole))
      continue;
    const PlacementKind placed = ground.placements[static_cast<std::size_t>(at - change.first_atom)].kind;
    if (placed == PlacementKind::kConflict) out.conflicts.push_back(at);
    if (placed == PlacementKind::kDone || placed == PlacementKind::kConflict) continue;
    switch (atom.kind) {
      case AtomKind::kCreate:
        // A path that the target has by now keeps its content; only what is missing is created.
        if (!exists) state = change.is_text ? FileState{change.after->mode, Oid{}} : *change.after;
        exists = true;
        break;
      case AtomKind::kDelete:
        exists = false;
        break;
      case AtomKind::kType:
        state = *change.after;
        break;
      case AtomKind::kMode:
        state.mode = change.after->mode;
        break;
      case AtomKind::kBinary:
        state.oid = change.after->oid;
        break;
      case AtomKind::kText:
        break;
    }
  }
  if (!out.conflicts.empty() || !exists) return out;
  if (change.is_text && ground.text() != nullptr) {
    out.bytes = compose_text(file, chosen, out.conflicts);
    if (!out.conflicts.empty()) return out;
  }
  out.mode = state.mode;
  out.oid = state.oid;
  return out;
}

Result<TreeChange> TreeComposer::change_of(std::size_t file, const BucketSet& chosen,
                                           std::vector<std::int32_t>& conflicts) {
  if (known_.empty()) {
    known_.resize(ground_.files.size());
    for (std::size_t i = 0; i < ground_.files.size(); ++i) owners_.push_back(composer_.owners_of(i));
  }
  std::vector<bool> key;
  for (const std::int32_t owner : owners_[file]) key.push_back(chosen.contains(owner));
  const auto found = known_[file].find(key);
  if (found != known_[file].end()) {
    conflicts.insert(conflicts.end(), found->second.conflicts.begin(), found->second.conflicts.end());
    return found->second.change;
  }
  ComposedFile composed = composer_.compose(file, chosen);
  TreeChange change{.path = composed.path, .mode = composed.mode, .oid = composed.oid};
  if (composed.mode && composed.bytes) {
    TS_TRY(change.oid, repository_.write(*composed.bytes));
  }
  conflicts.insert(conflicts.end(), composed.conflicts.begin(), composed.conflicts.end());
  known_[file].emplace(std::move(key), Known{change, std::move(composed.conflicts)});
  return change;
}

Result<TreeComposer::Composed> TreeComposer::compose(const Oid& start, const BucketSet& chosen) {
  Composed out;
  std::vector<TreeChange> changes;
  for (std::size_t file = 0; file < ground_.files.size(); ++file) {
    TS_TRY(TreeChange change, change_of(file, chosen, out.conflicts));
    const std::optional<FileState>& before = ground_.files[file].state;
    const bool is_same = before ? change.mode == before->mode && change.oid == before->oid : !change.mode;
    if (!is_same) changes.push_back(std::move(change));
  }
  if (!out.conflicts.empty()) return out;
  TS_TRY(out.tree, repository_.write_tree(start, std::move(changes)));
  return out;
}

}  // namespace tessera::stack

#include "stack/compose/replay.h"

#include "stack/git/merge3.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

bool is_same(const std::optional<TreeEntry>& a, const std::optional<TreeEntry>& b) {
  return a.has_value() == b.has_value() && (!a || (a->oid == b->oid && a->mode == b->mode));
}

bool is_file(const std::optional<TreeEntry>& entry) {
  return entry && (entry->mode == FileMode::kFile || entry->mode == FileMode::kExecutable);
}

}  // namespace

Result<Replayed> replay(Repository& repository, const Commit& commit, const Oid& onto) {
  if (commit.parents.empty())
    return Error{ErrorKind::kInvalidArgument, to_hex(commit.id), "This commit has no parent to differ from."};
  TS_TRY(const Commit parent, repository.read_commit(commit.parents[0]));
  TS_TRY(const std::vector<std::string> paths, repository.changed_paths(parent.tree, commit.tree));
  Replayed out;
  std::vector<TreeChange> changes;
  for (const std::string& path : paths) {
    const auto base = repository.find_entry(parent.tree, path);
    const auto theirs = repository.find_entry(commit.tree, path);
    const auto ours = repository.find_entry(onto, path);
    if (is_same(ours, theirs)) continue;
    if (is_same(ours, base)) {
      changes.push_back(
          {path, theirs ? std::optional(theirs->mode) : std::nullopt, theirs ? theirs->oid : Oid{}});
      continue;
    }
    if (!is_file(base) || !is_file(theirs) || !is_file(ours)) {
      out.conflicts.push_back(path);
      continue;
    }
    TS_TRY(const std::string base_text, repository.read(base->oid));
    TS_TRY(const std::string their_text, repository.read(theirs->oid));
    TS_TRY(const std::string our_text, repository.read(ours->oid));
    const MergedText merged = merge_texts(base_text, our_text, their_text);
    if (!merged.is_clean) {
      out.conflicts.push_back(path);
      continue;
    }
    TS_TRY(const Oid blob, repository.write(merged.text));
    changes.push_back({path, theirs->mode == base->mode ? ours->mode : theirs->mode, blob});
  }
  if (!out.conflicts.empty()) return out;
  out.tree = onto;
  if (!changes.empty()) {
    TS_TRY(out.tree, repository.write_tree(onto, std::move(changes)));
  }
  return out;
}

}  // namespace tessera::stack

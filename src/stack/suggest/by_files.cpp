// Proposals when there is no history: files first, because all atoms of a file belong together in most real
// trees.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "stack/atom/rename_view.h"
#include "stack/compose/name_use.h"
#include "stack/compose/word_index.h"
#include "stack/suggest/claims_of_atoms.h"
#include "stack/suggest/code_owners.h"
#include "stack/suggest/suggestion.h"

namespace tessera::stack {
namespace {

constexpr std::int64_t kSmall = 12;  // changed lines up to which a file may follow another

std::string stem_of(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1);
  return std::string(name.substr(0, name.find('.', 1)));
}

// The source that a test is named after: "test_foo", "foo_test" → "foo".
std::string tested_by(std::string_view path) {
  const std::string stem = stem_of(path);
  if (stem.starts_with("test_")) return stem.substr(5);
  if (stem.ends_with("_test")) return stem.substr(0, stem.size() - 5);
  return {};
}

struct Groups {
  std::vector<std::size_t> parent;
  std::size_t find(std::size_t at) {
    while (parent[at] != at) at = parent[at] = parent[parent[at]];
    return at;
  }
  void join(std::size_t from, std::size_t to) { parent[find(from)] = find(to); }
};

}  // namespace

Suggestion suggest_by_files(const Workspace& workspace) {
  const Listing& listing = workspace.listing;
  Suggestion out;
  // Only what nobody claims. Files stand in for buckets, so that the names each introduces and uses can be
  // asked as for a graph.
  std::map<std::int32_t, std::vector<std::int32_t>> free;  // file → atoms
  Ownership by_file;
  for (std::size_t i = 0; i < listing.atoms.size(); ++i) {
    const std::int32_t file = listing.atoms[i].file;
    const bool is_free = !workspace.claims.ownership.atoms[i].is_cut &&
                         workspace.claims.ownership.atoms[i].whole == kUnassigned;
    if (is_free) free[file].push_back(static_cast<std::int32_t>(i));
    by_file.atoms.push_back({.whole = is_free ? file : kUnassigned});
  }
  const NameUse names = find_names(listing, by_file);
  std::vector<std::int32_t> files;
  for (const auto& [file, atoms] : free) files.push_back(file);
  Groups groups;
  groups.parent.resize(files.size());
  std::iota(groups.parent.begin(), groups.parent.end(), std::size_t{0});
  std::vector<std::string> reasons(files.size());
  const auto path = [&](std::size_t at) -> const std::string& {
    return listing.files[static_cast<std::size_t>(files[at])].path;
  };
  std::vector<bool> is_local(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) is_local[i] = !local_reason(path(i)).empty();

  std::map<std::string, std::vector<std::size_t>> by_stem;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!is_local[i]) by_stem[stem_of(path(i))].push_back(i);
  }
  std::map<std::string, std::vector<std::size_t>, std::less<>> makers;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto introduced = names.introduced.find(files[i]);
    if (introduced == names.introduced.end() || is_local[i]) continue;
    for (const auto& [word, atom] : introduced->second) makers[word].push_back(i);
  }
  // A file that moved is one change, however its atoms are counted.
  for (const MovedText& moved : find_moves(listing, workspace.repository, workspace.plan().rename_view)) {
    const auto from = std::ranges::find(files, moved.from);
    const auto to = std::ranges::find(files, moved.to);
    if (from == files.end() || to == files.end()) continue;
    const auto gone = static_cast<std::size_t>(from - files.begin());
    const auto here = static_cast<std::size_t>(to - files.begin());
    if (is_local[gone] || is_local[here] || groups.find(gone) == groups.find(here)) continue;
    groups.join(gone, here);
    reasons[gone] = "moved to " + path(here);
  }
  const CodeOwners owners = CodeOwners::read(workspace.base_tree, workspace.repository);
  std::map<std::string, std::vector<std::size_t>> by_owner;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (const std::string owner = owners.of(path(i)); !owner.empty() && !is_local[i])
      by_owner[owner].push_back(i);
  }
  const WordIndex known = WordIndex::of(workspace.base_tree, workspace.repository, workspace.progress);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (is_local[i] || !reasons[i].empty()) continue;
    if (const std::string tested = tested_by(path(i)); !tested.empty()) {
      const auto source = by_stem.find(tested);
      if (source != by_stem.end() && source->second.size() == 1) {
        groups.join(i, source->second[0]);
        reasons[i] = "tests " + path(source->second[0]);
        continue;
      }
    }
    std::int64_t lines = 0;
    for (const std::int32_t at : free[files[i]])
      lines += listing.atoms[static_cast<std::size_t>(at)].at.new_count +
               listing.atoms[static_cast<std::size_t>(at)].at.old_count;
    if (lines > kSmall) continue;
    std::set<std::size_t> sources;
    std::string word_used;
    if (const auto used = names.used.find(files[i]); used != names.used.end()) {
      for (const auto& [word, atom] : used->second) {
        const auto maker = makers.find(word);
        if (maker == makers.end() || maker->second.size() != 1 || maker->second[0] == i ||
            known.contains(word))
          continue;
        sources.insert(maker->second[0]);
        word_used = word;
      }
    }
    if (sources.size() == 1 && groups.find(*sources.begin()) != groups.find(i)) {
      groups.join(i, *sources.begin());
      reasons[i] = "uses " + word_used;
      continue;
    }
    // Of two files that the same people review, the small one goes along; of more nobody can tell with which.
    const std::string owner = owners.of(path(i));
    if (!sources.empty() || owner.empty() || by_owner[owner].size() != 2) continue;
    const std::size_t other = by_owner[owner][0] == i ? by_owner[owner][1] : by_owner[owner][0];
    if (groups.find(other) == groups.find(i)) continue;
    groups.join(i, other);
    reasons[i] = "reviewed by " + owner + ", as " + path(other);
  }

  std::map<std::size_t, ProposedBucket> buckets;
  std::set<std::string> taken;
  for (const Bucket& bucket : workspace.plan().buckets) taken.insert(bucket.name);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::size_t root = groups.find(i);
    auto [bucket, is_new] = buckets.try_emplace(root);
    if (is_new) {
      const std::string base = slug_of(stem_of(path(root)));
      std::string name = base;
      for (int n = 2; is_reserved(name) || !taken.insert(name).second; ++n)
        name = base + "-" + std::to_string(n);
      bucket->second.name = name;
      const std::string reason = local_reason(path(root));
      bucket->second.kind = reason.empty() ? BucketKind::kUpstream : BucketKind::kLocal;
      bucket->second.comment =
          reason.empty() ? "by file, 94 percent right on one real fork" : "probably local: " + reason;
      if (const std::string owner = owners.of(path(root)); !owner.empty())
        bucket->second.comment += "; reviewed by " + owner;
    }
    for (const std::string& claim : claims_of_atoms(listing, free[files[i]]))
      bucket->second.take.push_back({claim, reasons[i]});
  }
  for (auto& [root, bucket] : buckets) out.buckets.push_back(std::move(bucket));
  return out;
}

}  // namespace tessera::stack

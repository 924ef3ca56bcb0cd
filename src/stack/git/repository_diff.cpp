// How two trees of a Repository differ: by paths, by lines, by what git calls the change.
#include <algorithm>

#include "stack/git/libgit2.h"
#include "stack/git/line_diff.h"
#include "stack/git/repository.h"
#include "stack/git/repository_state.h"

namespace tessera::stack {
namespace {

using GitDiff = GitOwned<git_diff, git_diff_free>;

Result<GitDiff> diff_trees(git_repository* repository, const std::string& where, const Oid& tree_a,
                           const Oid& tree_b, std::uint32_t context) {
  GitTree trees[2];
  for (const auto& [at, oid] : {std::pair(0, tree_a), std::pair(1, tree_b)}) {
    const git_oid id = to_git(oid);
    git_tree* raw = nullptr;
    if (git_tree_lookup(&raw, repository, &id) != 0) return git_failure(ErrorKind::kNotFound, where);
    trees[at].reset(raw);
  }
  git_diff_options options;
  git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION);
  options.ignore_submodules = GIT_SUBMODULE_IGNORE_ALL;
  options.flags |= GIT_DIFF_INDENT_HEURISTIC;  // as git draws blocks
  options.context_lines = context;
  git_diff* raw = nullptr;
  if (git_diff_tree_to_tree(&raw, repository, trees[0].get(), trees[1].get(), &options) != 0)
    return git_failure(ErrorKind::kIo, where);
  return GitDiff(raw);
}

}  // namespace

Result<TreeDistance> Repository::distance(const Oid& tree_a, const Oid& tree_b, bool with_lines) const {
  TS_TRY(const GitDiff diff, diff_trees(state_->repository.get(), path(), tree_a, tree_b, 0));
  TreeDistance distance{.files = static_cast<std::int64_t>(git_diff_num_deltas(diff.get()))};
  for (std::size_t i = 0; with_lines && i < git_diff_num_deltas(diff.get()); ++i) {
    const git_diff_delta* delta = git_diff_get_delta(diff.get(), i);
    std::string sides[2];
    bool is_text = true;
    for (const auto& [at, file] : {std::pair(0, &delta->old_file), std::pair(1, &delta->new_file)}) {
      if ((file->flags & GIT_DIFF_FLAG_EXISTS) == 0) continue;
      auto bytes = read(from_git(file->id));
      if (!bytes)
        is_text = false;
      else
        sides[at] = *std::move(bytes);
      is_text = is_text && std::string_view(sides[at]).substr(0, 8000).find('\0') == std::string_view::npos;
    }
    if (!is_text) continue;
    for (const LineChange& change : diff_lines(sides[0], sides[1]))
      distance.lines += change.old_count + change.new_count;
  }
  return distance;
}

Result<std::vector<std::string>> Repository::changed_paths(const Oid& tree_a, const Oid& tree_b) const {
  TS_TRY(const GitDiff diff, diff_trees(state_->repository.get(), path(), tree_a, tree_b, 0));
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < git_diff_num_deltas(diff.get()); ++i) {
    const git_diff_delta* delta = git_diff_get_delta(diff.get(), i);
    paths.emplace_back(delta->new_file.path != nullptr ? delta->new_file.path : delta->old_file.path);
  }
  std::ranges::sort(paths);
  // A change of type is a deletion and a creation. (std::, since clang 14 cannot compile ranges::unique of
  // libstdc++ 12, and the fuzz targets are built with it.)
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

std::optional<Oid> Repository::patch_id(const Oid& tree_a, const Oid& tree_b) const {
  constexpr std::uint32_t kContext = 3;  // git's default, and part of the id
  const auto diff = diff_trees(state_->repository.get(), path(), tree_a, tree_b, kContext);
  git_oid id;
  if (!diff || git_diff_num_deltas(diff->get()) == 0 || git_diff_patchid(&id, diff->get(), nullptr) != 0)
    return std::nullopt;
  return from_git(id);
}

}  // namespace tessera::stack

#include "stack/command/topic_difference.h"

#include "stack/patch/range_diff.h"
#include "stack/publish/series.h"

namespace tessera::stack {
namespace {

Result<TopicVersion> version_of(const Repository& repository, const Oid& tip) {
  TS_TRY(const Commit commit, repository.read_commit(tip));
  TopicVersion version{.message = commit.message, .patch = {}};
  if (commit.parents.empty()) return version;
  TS_TRY(const Commit parent, repository.read_commit(commit.parents[0]));
  TS_TRY(version.patch, tree_patch(repository, parent.tree, commit.tree));
  return version;
}

}  // namespace

Result<TopicDifference> compare_versions(const Repository& repository, const std::optional<Oid>& before,
                                         const std::optional<Oid>& after) {
  if (!before || !after) return TopicDifference{.mark = before ? "<" : after ? ">" : "="};
  if (before == after) return TopicDifference{};
  TS_TRY(const TopicVersion old_version, version_of(repository, *before));
  TS_TRY(const TopicVersion new_version, version_of(repository, *after));
  TS_TRY(std::string text, range_diff(old_version, new_version));
  return TopicDifference{.mark = text.empty() ? "=" : "!", .text = std::move(text)};
}

}  // namespace tessera::stack

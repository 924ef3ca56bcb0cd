#include "stack/git/line_diff.h"

#include "base/check.h"
#include "stack/git/libgit2.h"

namespace tessera::stack {

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

std::vector<LineChange> diff_lines(std::string_view before, std::string_view after, DiffAlgorithm algorithm) {
  const GitLibrary library;
  git_diff_options options;
  git_diff_options_init(&options, GIT_DIFF_OPTIONS_VERSION);
  options.flags = GIT_DIFF_FORCE_TEXT | GIT_DIFF_INDENT_HEURISTIC;
  if (algorithm == DiffAlgorithm::kMinimal) options.flags |= GIT_DIFF_MINIMAL;
  if (algorithm == DiffAlgorithm::kPatience) options.flags |= GIT_DIFF_PATIENCE;
  options.context_lines = 0;
  options.interhunk_lines = 0;
  options.max_size = -1;
  std::vector<LineChange> changes;
  const auto on_hunk = [](const git_diff_delta*, const git_diff_hunk* hunk, void* payload) {
    // With count 0, git's start names the line after which; with more, the first line, counted from 1.
    const auto begin = [](int start, int count) { return count == 0 ? start : start - 1; };
    static_cast<std::vector<LineChange>*>(payload)->push_back(
        {.old_begin = begin(hunk->old_start, hunk->old_lines),
         .old_count = hunk->old_lines,
         .new_begin = begin(hunk->new_start, hunk->new_lines),
         .new_count = hunk->new_lines});
    return 0;
  };
  const int status = git_diff_buffers(before.data(), before.size(), nullptr, after.data(), after.size(),
                                      nullptr, &options, nullptr, nullptr, on_hunk, nullptr, &changes);
  TS_CHECK(status == 0, status, before.size(), after.size());
  return changes;
}

}  // namespace tessera::stack

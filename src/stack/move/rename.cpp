#include "stack/move/rename.h"

#include "stack/move/line_map.h"

namespace tessera::stack {
namespace {

constexpr std::int32_t kLeastPercent = 60;

std::string_view ending(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos || path.find('/', dot) != std::string_view::npos ? std::string_view()
                                                                                        : path.substr(dot);
}

}  // namespace

Result<std::optional<Rename>> find_rename(const Workspace& workspace, const Tree& target,
                                          const FileChange& file) {
  std::optional<Rename> best;
  bool is_tied = false;
  const std::int32_t lines = static_cast<std::int32_t>(file.old_text.lines.size());
  for (const TreeEntry& entry : target.entries) {
    if (entry.unreadable || entry.mode == FileMode::kGitlink ||
        workspace.base_tree.find(entry.path) != nullptr)
      continue;
    std::int32_t percent = 0;
    if (entry.oid == file.before->oid) {
      percent = 100;
    } else {
      // Same ending and a size that can reach the limit; anything else is not worth reading.
      if (!file.is_text || lines == 0 || ending(entry.path) != ending(file.path)) continue;
      const double ratio = static_cast<double>(entry.size) / static_cast<double>(file.old_text.bytes->size());
      if (ratio < 0.4 || ratio > 2.5) continue;
      TS_TRY(const std::string bytes, workspace.repository.read(entry.oid));
      std::int32_t removed = 0;
      for (const LineChange& change : diff_lines(*file.old_text.bytes, bytes)) removed += change.old_count;
      const auto there = static_cast<std::int32_t>(split_lines(bytes).size());
      percent = 100 * (lines - removed) / std::max(lines, there);
    }
    if (percent < kLeastPercent || (best && percent < best->percent)) continue;
    is_tied = best && percent == best->percent;
    best = Rename{entry.path, percent};
  }
  if (is_tied) best.reset();
  return best;
}

}  // namespace tessera::stack

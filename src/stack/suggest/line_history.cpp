#include "stack/suggest/line_history.h"

#include "base/check.h"
#include "stack/git/line_diff.h"

namespace tessera::stack {

LineHistory::LineHistory(std::string_view base) {
  const std::size_t count = split_lines(base).size();
  for (std::size_t i = 0; i < count; ++i)
    lines_.push_back({.author = kNobody, .base_line = static_cast<std::int32_t>(i)});
  removed_.assign(count, kNobody);
}

void LineHistory::step(std::string_view before, std::string_view after, std::int32_t author) {
  std::vector<Line> next;
  std::size_t at = 0;
  for (const LineChange& change : diff_lines(before, after)) {
    for (; at < static_cast<std::size_t>(change.old_begin); ++at) next.push_back(lines_[at]);
    for (std::int32_t i = 0; i < change.old_count; ++i, ++at) {
      if (lines_[at].base_line >= 0) removed_[static_cast<std::size_t>(lines_[at].base_line)] = author;
    }
    for (std::int32_t i = 0; i < change.new_count; ++i) next.push_back({.author = author, .base_line = -1});
  }
  for (; at < lines_.size(); ++at) next.push_back(lines_[at]);
  lines_ = std::move(next);
  TS_CHECK(lines_.size() == split_lines(after).size(), lines_.size(), author);
}

}  // namespace tessera::stack

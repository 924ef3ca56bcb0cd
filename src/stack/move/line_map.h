// Where lines of one text are in another, by their difference. Context is never searched: the base is at
// hand.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "stack/git/line_diff.h"

namespace tessera::stack {

class LineMap {
 public:
  LineMap(std::string_view before, std::string_view after) : changes_(diff_lines(before, after)) {}

  const std::vector<LineChange>& changes() const { return changes_; }

  // The changes that touch lines [begin, begin + count) of the old text, or the line on either side of them.
  std::vector<LineChange> touching(std::int32_t begin, std::int32_t count) const;
  // Where old line `line` would begin in the new text when nothing at it changed: right for a line outside
  // all changes, and for the first line behind one.
  std::int32_t position(std::int32_t line) const;

 private:
  std::vector<LineChange> changes_;
};

}  // namespace tessera::stack

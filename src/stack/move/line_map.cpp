#include "stack/move/line_map.h"

namespace tessera::stack {

std::vector<LineChange> LineMap::touching(std::int32_t begin, std::int32_t count) const {
  std::vector<LineChange> found;
  for (const LineChange& change : changes_) {
    // Line ends at which the change stands, first and last, against those that the range and its two
    // neighbours hold together.
    if (change.old_begin <= begin + count && change.old_begin + change.old_count >= begin)
      found.push_back(change);
  }
  return found;
}

std::int32_t LineMap::position(std::int32_t line) const {
  std::int32_t shift = 0;
  for (const LineChange& change : changes_) {
    if (change.old_begin + change.old_count <= line) shift += change.new_count - change.old_count;
  }
  return line + shift;
}

}  // namespace tessera::stack

#include "stack/patch/patch.h"

#include <utility>

namespace tessera::stack {

std::vector<std::string> Hunk::side(char sign) const {
  std::vector<std::string> out;
  for (const HunkLine& line : lines) {
    if (line.sign == ' ' || line.sign == sign) out.push_back(line.text);
  }
  return out;
}

FilePatch reversed(const FilePatch& patch) {
  FilePatch out = patch;
  std::swap(out.old_path, out.new_path);
  std::swap(out.old_mode, out.new_mode);
  std::swap(out.old_id, out.new_id);
  std::swap(out.forward, out.backward);
  for (Hunk& hunk : out.hunks) {
    std::swap(hunk.old_start, hunk.new_start);
    std::swap(hunk.old_count, hunk.new_count);
    for (HunkLine& line : hunk.lines) line.sign = line.sign == '-' ? '+' : line.sign == '+' ? '-' : ' ';
  }
  return out;
}

}  // namespace tessera::stack

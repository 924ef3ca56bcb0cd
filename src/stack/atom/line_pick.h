// Lines of one atom, chosen by number or by expression: `-1,+2..5`, `+/_t_(enter|exit)/`. What stands between
// the brackets of a piece.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::stack {

// One flag a line; sizes are those of the atom.
struct LinePick {
  std::vector<bool> removed;
  std::vector<bool> added;
  friend bool operator==(const LinePick&, const LinePick&) = default;

  bool is_empty() const;
  bool is_all() const;
};

// Lines are counted from 1, removed and added ones apart. A number that the atom does not have is an error.
Result<LinePick> pick_lines(std::string_view expression, std::span<const std::string_view> removed,
                            std::span<const std::string_view> added);

// The shortest numbers that choose the same lines, for plans: "-1,+2..5".
std::string pick_text(const LinePick& pick);

}  // namespace tessera::stack

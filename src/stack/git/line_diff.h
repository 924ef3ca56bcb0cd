// Differences of two texts by lines, without context: the maximal changed blocks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::stack {

enum class DiffAlgorithm { kMyers, kMinimal, kPatience };

// Lines [old_begin, old_begin + old_count) became [new_begin, new_begin + new_count). Counted from 0; one
// count may be 0.
struct LineChange {
  std::int32_t old_begin = 0;
  std::int32_t old_count = 0;
  std::int32_t new_begin = 0;
  std::int32_t new_count = 0;
  friend bool operator==(const LineChange&, const LineChange&) = default;
};

// In order; neighbours are separated by at least one unchanged line. Equal to `git diff -U0` with git's
// default heuristics.
std::vector<LineChange> diff_lines(std::string_view before, std::string_view after,
                                   DiffAlgorithm algorithm = DiffAlgorithm::kMyers);

// The lines with their line ends; the last one may have none. CR is part of its line.
std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace tessera::stack

// Who wrote each line of a text, and who removed each line of the base, followed forward from version to
// version. Exact where blame guesses: deletions have an owner, too.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::stack {

inline constexpr std::int32_t kNobody = -1;

class LineHistory {
 public:
  // Starts at the base's text, whose lines belong to nobody.
  explicit LineHistory(std::string_view base);

  // The text became `after`, by `author`.
  void step(std::string_view before, std::string_view after, std::int32_t author);

  std::int32_t author_of(std::size_t line) const {
    return lines_[line].author;
  }  // of the present text; kNobody: the base's
  std::int32_t remover_of(std::size_t base_line) const {
    return removed_[base_line];
  }  // kNobody: still there
  std::size_t size() const { return lines_.size(); }

 private:
  struct Line {
    std::int32_t author = kNobody;
    std::int32_t base_line = -1;  // which line of the base it is
  };
  std::vector<Line> lines_;
  std::vector<std::int32_t> removed_;  // [lines of the base]
};

}  // namespace tessera::stack

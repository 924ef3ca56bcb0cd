// Finds stop strings in a stream of text. Text that may turn out to be the beginning of one is held back, all
// other text is passed on at once. The match that ends first wins, and of those that end together the
// longest, so the result does not depend on how the text is cut into pieces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class StopMatcher {
 public:
  // `include_stop`: the stop string itself is part of the text.
  explicit StopMatcher(std::vector<std::string> stops = {}, bool include_stop = false);

  // What of the text so far can be shown now. Empty once a stop string was found.
  std::string push(std::string_view text);
  // The end of the stream: what was held back cannot become a stop string any more.
  std::string flush();
  const std::optional<std::string>& matched() const { return matched_; }

 private:
  // Knuth-Morris-Pratt, one automaton a string: linear in the text whatever the strings are.
  struct Pattern {
    std::string text;
    std::vector<std::uint32_t> fallback;  // [text.size()] length of the longest proper border of the prefix
    std::size_t reached = 0;              // bytes of it that end the text so far
  };

  std::vector<Pattern> patterns_;
  bool include_stop_;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace tessera

// Which identifiers occur anywhere in a tree: the answer to "is this name new?". Built once a tree and cached
// beside the repository.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"
#include "stack/progress.h"

namespace tessera::stack {

// Calls `take` for every identifier of at least 3 letters.
template <class Take>
void for_each_word(std::string_view text, Take take) {
  const auto is_first = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto is_word = [&](char c) { return is_first(c) || (c >= '0' && c <= '9'); };
  for (std::size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < text.size() && is_word(text[i])) ++i;
    if (i - begin >= 3 && is_first(text[begin])) take(text.substr(begin, i - begin), begin);
  }
}

class WordIndex {
 public:
  // Reads every file up to 1 MiB of the tree, or the cache `<git folder>/tessera-stack/words-<tree digest>`,
  // which it writes.
  static WordIndex of(const Tree& tree, const Repository& repository, const StageProgress& progress = {});

  bool contains(std::string_view word) const;
  std::size_t size() const { return hashes_.size(); }

 private:
  std::vector<std::uint64_t> hashes_;  // sorted, unique
};

}  // namespace tessera::stack

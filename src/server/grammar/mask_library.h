// What a grammar allows inside one of its rules, whatever is open around it. A string's body is in every
// schema and allows most of a vocabulary: finding that out walks the whole trie, so it is done once and
// shared by all grammars over the trie.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tessera {

// The trie's walk from a set of places in one rule, until the rule ends.
struct LocalMask {
  std::vector<std::uint64_t> inside;  // tokens after which the rule goes on; empty: see `few`
  std::vector<std::int32_t> few;      // the same as a list, where a list is shorter
  std::vector<std::uint32_t> exits;   // trie nodes with whose last byte the rule may end
  std::int32_t deepest = 0;           // calls that were open on the way, at most
  std::size_t visited = 0;            // trie nodes
};

class MaskLibrary {
 public:
  std::shared_ptr<const LocalMask> find(const std::string& automaton) const;
  void keep(std::string automaton, std::shared_ptr<const LocalMask> mask);

 private:
  static constexpr std::size_t kMost = 256;  // 5 MiB with 163,840 tokens; then it starts afresh

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const LocalMask>> known_;  // shared with the matchers that use them
};

}  // namespace tessera

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

// The same for a call that counts (byte_grammar.h), whatever the count is: tokens by how many items they
// need.
struct CountedMask {
  struct Exit {
    std::uint32_t node;  // of the trie; its last byte ends the call
    std::int32_t items;  // read before
  };
  std::vector<std::int32_t> tokens;   // after which the call goes on, those that need fewer items first
  std::vector<std::size_t> up_to;     // [need]: how many of the tokens need at most so many items
  std::vector<std::uint64_t> inside;  // all of them; empty when a list is shorter
  std::vector<Exit> exits;

  std::int32_t most_items = 0;  // that any of these need: with room for as many, all are allowed

  // Sets the bits of the tokens that need at most `items`.
  void mark(std::vector<std::uint64_t>& mask, std::int32_t items) const;
};

class MaskLibrary {
 public:
  std::shared_ptr<const LocalMask> find(const std::string& automaton) const;
  void keep(std::string automaton, std::shared_ptr<const LocalMask> mask);
  std::shared_ptr<const CountedMask> find_counted(const std::string& automaton) const;
  void keep_counted(std::string automaton, std::shared_ptr<const CountedMask> mask);

 private:
  static constexpr std::size_t kMost = 256;  // 5 MiB with 163,840 tokens; then it starts afresh

  mutable std::mutex mutex_;
  // Shared with the matchers that use them.
  std::map<std::string, std::shared_ptr<const LocalMask>> known_;
  std::map<std::string, std::shared_ptr<const CountedMask>> counted_;
};

}  // namespace tessera

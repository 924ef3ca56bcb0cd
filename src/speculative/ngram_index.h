// Prompt lookup: what followed the last time that the newest few tokens occurred?
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// One sequence's tokens and, for each length n in [shortest, longest], where every run of n tokens was last
// followed by another token. Appending a token and looking one up take time O(longest), however long the
// sequence.
class NgramIndex {
 public:
  NgramIndex(std::int32_t shortest, std::int32_t longest);

  void clear();
  void append(std::int32_t token);
  void append(std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) append(token);
  }
  std::span<const std::int32_t> tokens() const { return tokens_; }

  // Up to `count` tokens that followed the most recent earlier occurrence of the longest run that ends the
  // sequence. Where that occurrence reaches into the end of the sequence, its period goes on.
  void lookup(std::int32_t count, std::vector<std::int32_t>& found) const;

 private:
  // Positions that follow a run of n tokens, hashed by the run; open addressing, no more than half full.
  struct Table {
    std::vector<std::int32_t> follows;  // 0: empty (no run is followed by position 0)
    std::int64_t used = 0;
  };
  std::uint64_t hash_before(std::int32_t position, std::int32_t n) const;
  bool same_run(std::int32_t a, std::int32_t b, std::int32_t n) const;
  std::size_t place_of(const Table& table, std::int32_t position, std::int32_t n) const;
  void put(Table& table, std::int32_t position, std::int32_t n);

  std::int32_t shortest_;
  std::vector<Table> tables_;  // [longest - shortest + 1]
  std::vector<std::int32_t> tokens_;
};

}  // namespace tessera

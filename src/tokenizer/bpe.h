// Byte-pair encoding of one piece of text: neighbours are merged, the pair with the lowest rank first, the
// leftmost of equal ranks, until no pair has a rank.
//
// Both shipped forms become one table (left id, right id) -> (rank, merged id). Hugging Face lists it; for
// tiktoken it follows from the vocabulary, since there two neighbours merge when their joined bytes are an
// entry, whose id is the rank.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace tessera {

struct Merge {
  std::int32_t rank = -1;  // lower goes first; -1: the pair does not merge
  std::int32_t id = -1;    // of the merged token
};

// A hash table with open addressing: one cache miss a lookup. Filled by the loaders, const afterwards.
class MergeTable {
 public:
  explicit MergeTable(std::size_t expected = 0);
  // The first rank given to a pair stays.
  void add(std::int32_t left, std::int32_t right, Merge merge);
  Merge find(std::int32_t left, std::int32_t right) const;
  std::size_t size() const { return count_; }

  // tiktoken: every way to cut an entry of ids [0, entries) into two entries.
  static MergeTable from_ranks(const Vocabulary& vocabulary, std::int32_t entries);

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  std::size_t slot_of(std::uint64_t key) const;
  void grow();

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::size_t count_ = 0;
};

struct BpeModel {
  Vocabulary vocabulary;
  MergeTable merges;
  std::array<std::int32_t, 256> byte_ids{};  // id of each single byte; -1: the byte is dropped
  bool whole_piece_first = true;  // a piece that is an entry is that token, whatever merges would give
};

// Appends the ids of `piece` to `ids`. Time O(n log n) in the bytes of the piece, whatever they are. Returns
// how often the merge table was asked, which is what most of the time goes to.
std::size_t bpe_encode(const BpeModel& model, std::string_view piece, std::vector<std::int32_t>& ids);

}  // namespace tessera

// Finds control tokens in text: the leftmost, of those the longest. Time is linear in the text for any text,
// times the length of the longest control token.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

// Bytes [begin, end) of a text.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

class ControlTokenTable {
 public:
  ControlTokenTable() = default;
  // Refuses empty texts, and two tokens with one text or one id.
  static Result<ControlTokenTable> make(std::vector<ControlToken> tokens);

  std::span<const ControlToken> tokens() const { return tokens_; }  // in order of id
  const ControlToken* find_id(std::int32_t id) const;
  const ControlToken* find_text(std::string_view text) const;

  struct Match {
    ByteRange range;  // what it stands for, blanks it eats included
    const ControlToken* token;
  };
  // All matches in `text` that lie within one of the `allowed` ranges (in order, not touching each other).
  std::vector<Match> find_all(std::string_view text, std::span<const ByteRange> allowed) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::int32_t>> next;  // sorted by byte
    std::int32_t token = -1;                          // index into tokens_
  };
  const ControlToken* longest_at(std::string_view text) const;

  std::vector<ControlToken> tokens_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> first_byte_{};
};

}  // namespace tessera

// The vocabulary's texts as a tree in one array, in the order of a depth-first walk: walking it under a
// grammar is a scan with jumps.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera {

class TokenTrie {
 public:
  struct Node {
    std::uint32_t skip;   // index of the first node that does not lie below this one
    std::int32_t token;   // the first token that ends here, -1: none
    std::uint16_t depth;  // bytes from the root, at least 1
    std::uint8_t byte;
  };

  // Entry i is the text of token i; empty ones are left out (control tokens, holes), as are texts longer than
  // 60,000 bytes.
  explicit TokenTrie(std::vector<std::string_view> texts);

  const std::vector<Node>& nodes() const { return nodes_; }
  // The next token with the same text, -1: none.
  std::int32_t next_same(std::int32_t token) const { return next_same_[static_cast<std::size_t>(token)]; }
  std::int32_t vocab() const { return static_cast<std::int32_t>(next_same_.size()); }
  std::uint16_t depth() const { return depth_; }

 private:
  std::vector<Node> nodes_;
  std::vector<std::int32_t> next_same_;
  std::uint16_t depth_ = 0;
};

}  // namespace tessera

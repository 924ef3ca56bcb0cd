#include "server/grammar/token_trie.h"

#include <algorithm>
#include <numeric>

namespace tessera {

TokenTrie::TokenTrie(std::vector<std::string_view> texts) : next_same_(texts.size(), -1) {
  constexpr std::size_t kLongest = 60'000;
  std::vector<std::int32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto text_of = [&](std::int32_t token) { return texts[static_cast<std::size_t>(token)]; };
  std::erase_if(
      order, [&](std::int32_t token) { return text_of(token).empty() || text_of(token).size() > kLongest; });
  std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
    const int compared = text_of(a).compare(text_of(b));
    return compared != 0 ? compared < 0 : a < b;
  });
  std::vector<std::uint32_t> path;  // nodes of the text before
  std::string_view previous;
  const auto close_from = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].skip = static_cast<std::uint32_t>(nodes_.size());
  };
  for (const std::int32_t token : order) {
    const std::string_view text = text_of(token);
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(previous, text).in1 - previous.begin());
    close_from(common);
    for (std::size_t i = common; i < text.size(); ++i) {
      path.push_back(static_cast<std::uint32_t>(nodes_.size()));
      nodes_.push_back({.skip = 0,
                        .token = -1,
                        .depth = static_cast<std::uint16_t>(i + 1),
                        .byte = static_cast<std::uint8_t>(text[i])});
    }
    depth_ = std::max(depth_, static_cast<std::uint16_t>(text.size()));
    Node& node = nodes_[path.back()];
    next_same_[static_cast<std::size_t>(token)] = node.token;
    node.token = token;
    previous = text;
  }
  close_from(0);
}

}  // namespace tessera

#include "tokenizer/vocabulary.h"

#include <algorithm>

namespace tessera {

Vocabulary::Vocabulary(std::vector<std::string> pieces, std::span<const ControlToken> control)
    : pieces_(std::move(pieces)) {
  for (const ControlToken& token : control) {
    pieces_.resize(std::max(pieces_.size(), static_cast<std::size_t>(token.id) + 1));
    pieces_[static_cast<std::size_t>(token.id)].clear();
  }
  index_.reserve(pieces_.size());
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    if (!pieces_[id].empty()) index_.emplace(pieces_[id], static_cast<std::int32_t>(id));
  }
  for (const ControlToken& token : control) pieces_[static_cast<std::size_t>(token.id)] = token.text;
}

std::string_view Vocabulary::bytes_of(std::int32_t id) const {
  if (id < 0 || id >= size()) return {};
  return pieces_[static_cast<std::size_t>(id)];
}

std::optional<std::int32_t> Vocabulary::id_of(std::string_view bytes) const {
  const auto found = index_.find(bytes);
  if (found == index_.end()) return std::nullopt;
  return found->second;
}

}  // namespace tessera

// Ids and the bytes they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace tessera {

class Vocabulary {
 public:
  Vocabulary() = default;
  // `pieces` [vocab]: bytes by id, empty for a hole. Control tokens get their text as bytes, and ids beyond
  // `pieces` if they want; they are never found by id_of, so that no BPE text can be taken for one.
  Vocabulary(std::vector<std::string> pieces, std::span<const ControlToken> control);
  Vocabulary(const Vocabulary&) = delete;  // the index points into the pieces
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  std::string_view bytes_of(std::int32_t id) const;
  std::optional<std::int32_t> id_of(std::string_view bytes) const;
  std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }

 private:
  std::vector<std::string> pieces_;
  std::unordered_map<std::string_view, std::int32_t> index_;
};

}  // namespace tessera

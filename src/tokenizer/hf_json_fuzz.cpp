// Any bytes as tokenizer.json: an error, or a tokenizer that encodes any text and decodes what it made of it.
#include "tokenizer/hf_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto made = tessera::make_hf_tokenizer(text, {}, "fuzz");
  if (!made) return 0;
  const auto ids = made->encode(text.substr(0, 300), tessera::ControlTokens::kRecognise);
  if (ids) (void)made->decode(*ids, true);
  return 0;
}

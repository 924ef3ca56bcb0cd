// Any bytes as tiktoken.model: an error, or a tokenizer whose tokens spell what was given, byte for byte.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "tokenizer/tiktoken.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  const auto made = make_tiktoken_tokenizer(model, {}, "fuzz");
  if (!made) return 0;
  const std::string text = "Aa ab12 it's\n\n  é世界 \t<|x|>" + std::string(40, 'a');
  const auto ids = made->encode(text, ControlTokens::kAsText);
  TS_CHECK(ids.ok());
  std::string spelled;
  for (const std::int32_t id : *ids) spelled += made->bytes_of(id);
  TS_CHECK(spelled == text, spelled);
  return 0;
}

// Any bytes as a template: an error or a text within the limits, never a crash or a hang.
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "tokenizer/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::jinja;
  const auto parsed = Template::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!parsed) return 0;
  const nlohmann::ordered_json messages = {
      {{"role", "user"}, {"content", "Hi é"}},
      {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {{{"id", "a"}}}}}};
  const auto text = parsed->render({{"messages", from_json(messages)}, {"x", foreign("evil")}},
                                   {.steps = 50'000, .text_bytes = 1 << 20, .depth = 50}, {});
  TS_CHECK(!text || text->size() <= (1 << 20));
  return 0;
}

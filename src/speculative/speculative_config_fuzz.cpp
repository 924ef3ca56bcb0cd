// Any text as --speculative-config: refused with one line, or read into values within their ranges.
//
//   speculative_config_fuzz src/speculative/testdata/speculative_config_fuzz
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "speculative/speculative_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = tessera::parse_speculative_config({reinterpret_cast<const char*>(data), size});
  if (!config) {
    TS_CHECK(config.error().message().find('\n') == std::string::npos, config.error().message());
    return 0;
  }
  TS_CHECK(config->num_speculative_tokens >= 0 && config->num_speculative_tokens <= 128,
           config->num_speculative_tokens);
  TS_CHECK(!(config->draws_drafts && config->local_argmax));
  TS_CHECK(config->method == tessera::SpeculativeMethod::kNgram || !config->model.empty());
  return 0;
}

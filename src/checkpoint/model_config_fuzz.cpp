// Any text as config.json: refused in one line, or the parameter list and the report can be made of it.
//
//   model_config_fuzz src/checkpoint/testdata/model_config_fuzz
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "checkpoint/inspect.h"
#include "checkpoint/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config = tessera::parse_model_config({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!config) {
    TS_CHECK(config.error().message().find('\n') == std::string::npos, config.error().message());
    return 0;
  }
  if (config->layers * (config->moe.experts + 1) > 2000) return 0;  // right, but slow
  const tessera::Inspection inspection = tessera::inspect(*config);
  TS_CHECK(inspection.bytes > 0 && inspection.parameters > 0, inspection.bytes, inspection.parameters);
  TS_CHECK(!inspect_text(inspection).empty() && !inspect_json(inspection).empty());
  return 0;
}

// Any bytes as a step plan: refused, or written again they are the same bytes.
//
//   plan_codec_fuzz src/engine/testdata/plan_codec_fuzz
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "engine/plan_codec_limits.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::PlanDecoder decoder(tessera::kSeedLimits);
  const auto plan = decoder.decode({reinterpret_cast<const std::byte*>(data), size});
  if (!plan) return 0;
  std::vector<std::byte> again;
  tessera::encode_plan(**plan, again);
  TS_CHECK(again.size() == size && std::memcmp(again.data(), data, size) == 0, again.size(), size);
  return 0;
}

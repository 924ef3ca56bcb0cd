// Any bytes as a trace.
#include <cstddef>
#include <cstdint>

#include "bench/load/replay_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tessera::bench::parse_trace({reinterpret_cast<const char*>(data), size}, "fuzz").ok();
  return 0;
}

// Any bytes as a page of metrics.
#include <cstddef>
#include <cstdint>

#include "bench/load/prometheus_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::bench::read_counters({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Any bytes as a benchmark's result.
#include <cstddef>
#include <cstdint>

#include "bench/compare/result_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tessera::bench::read_result({reinterpret_cast<const char*>(data), size}, "fuzz").ok();
  return 0;
}

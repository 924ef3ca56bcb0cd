// Any bytes as a safetensors file: refused, or its entries lie in order inside the file and fill it.
//
//   safetensors_fuzz src/checkpoint/testdata/safetensors_fuzz
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = tessera::parse_safetensors(file, "fuzz.safetensors");
  if (!header) {
    TS_CHECK(header.error().message().find('\n') == std::string::npos, header.error().message());
    return 0;
  }
  std::int64_t at = header->data_start;
  for (const tessera::TensorEntry& entry : header->entries) {
    TS_CHECK(header->data_start + entry.begin == at && entry.end >= entry.begin, entry.begin, entry.end, at);
    TS_CHECK(!entry.name.empty());
    at += entry.bytes();
  }
  TS_CHECK(at == static_cast<std::int64_t>(size), at, size);
  return 0;
}

// Any bytes as an event stream, cut in two anywhere.
#include <cstddef>
#include <cstdint>

#include "bench/load/stream_event.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = size > 1 ? data[0] % size : 0;
  tessera::bench::EventLines lines;
  std::string text;
  const auto read = [&](std::string_view payload) { tessera::bench::read_event(payload, text); };
  lines.feed(bytes.substr(0, cut), read);
  lines.feed(bytes.substr(cut), read);
  return 0;
}

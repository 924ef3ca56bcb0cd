// Any ids in any bundles: what comes out is whole UTF-8 and equals the repair of all bytes.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tokenizer/unicode/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::string out;
  tessera::Utf8Repair repair;
  for (std::size_t at = 0; at < size;) {
    const std::size_t step = 1 + data[at] % 5;
    repair.push(bytes.substr(at, step), out);
    TS_CHECK(tessera::is_utf8(out));
    at += step;
  }
  out += repair.flush();
  TS_CHECK(out == tessera::repair_utf8(bytes));
  return 0;
}

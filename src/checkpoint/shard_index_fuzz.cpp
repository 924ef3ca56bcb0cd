// Any text as model.safetensors.index.json: refused, or it names files of its own folder alone.
//
//   shard_index_fuzz src/checkpoint/testdata/shard_index_fuzz
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "checkpoint/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index = tessera::parse_shard_index({reinterpret_cast<const char*>(data), size});
  if (!index) {
    TS_CHECK(index.error().message().find('\n') == std::string::npos, index.error().message());
    return 0;
  }
  for (const std::string& file : index->files)
    TS_CHECK(!file.empty() && file.find('/') == std::string::npos, file);
  for (const auto& item : index->items) TS_CHECK(index->files.contains(item.file), item.file);
  return 0;
}

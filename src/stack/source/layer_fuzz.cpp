// Any bytes as a layer: no crash, no reading out of the archive, bounded work; what is listed merges, twice
// over.
#include <cstdint>

#include "base/check.h"
#include "stack/source/layer_stack.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::stack;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  MemoryBytes source(bytes, 777);
  const ReadLimits limits{.entries = 2000, .bomb_bytes = 1 << 20, .bomb_ratio = 50};
  const auto listing = read_layer(source, {}, limits, "fuzz");
  if (!listing) return 0;
  for (const LayerEntry& entry : listing->entries) {
    TS_CHECK(!entry.path.empty() && clean_path(entry.path) == entry.path, entry.path);
  }
  const MergedTree merged = merge_layers({&*listing, &*listing});
  for (const auto& [path, entry] : merged.paths) (void)resolve_inside(merged, path);
  return 0;
}

#include "speculative/draft_cache.h"

#include <cstddef>

#include "base/check.h"

namespace tessera {

DraftCache make_draft_cache(Backend& backend, std::int64_t layers, const KvRowShape& shape,
                            const DraftCacheOptions& options) {
  const std::optional<std::int64_t> row = kv_row_bytes(options.format, shape);
  TS_CHECK(row.has_value(), name_of(options.format));
  const std::int64_t layer_bytes = *row * options.blocks * options.block_size;
  DraftCache cache;
  cache.memory.block = *row * options.block_size * layers;
  cache.memory.all = cache.memory.block * options.blocks;
  cache.storage = backend.allocate(static_cast<std::size_t>(cache.memory.all));
  for (std::int64_t l = 0; l < layers; ++l) {
    cache.layers.push_back({.data = static_cast<std::byte*>(cache.storage.get()) + l * layer_bytes,
                            .format = options.format,
                            .shape = shape,
                            .blocks = options.blocks,
                            .block_size = options.block_size,
                            .row_bytes = *row,
                            .scale = options.scale});
  }
  return cache;
}

}  // namespace tessera

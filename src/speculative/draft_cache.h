// The cache of a draft: layers of its own over the block ids of the target's.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "tensor/kv_format.h"

namespace tessera {

struct DraftCacheOptions {
  KvFormat format = KvFormat::kF32;  // the draft's own choice
  float scale = 1.0F;
  std::int32_t blocks = 0;      // as many as the target's pool has
  std::int32_t block_size = 0;  // likewise
};

struct DraftCache {
  Buffer storage;
  std::vector<KvLayer> layers;
  CacheMemory memory;
};

// kv_row_bytes(format, shape) must not be empty.
DraftCache make_draft_cache(Backend& backend, std::int64_t layers, const KvRowShape& shape,
                            const DraftCacheOptions& options);

}  // namespace tessera

// Tensor maps over rows of queries, of the cache, or of expanded keys, for the copy engine of Hopper.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera::cuda {

// [outer, rows, row_bytes] as the copy engine sees it: [outer, chunks, rows, chunk_bytes]. A copy brings
// `box_rows` rows of `box_chunks` neighbouring chunks, one chunk after the other. Coordinates: 0, row, chunk,
// outer.
struct MlaRowMap {
  const void* data = nullptr;  // of the first chunk
  std::int64_t row_bytes = 0;
  std::int64_t rows = 0;
  std::int64_t outer = 1;
  std::int32_t chunk_bytes = 128;
  std::int32_t chunks = 1;  // of a row, from `data` on
  std::int32_t box_rows = 64;
  std::int32_t box_chunks = 1;
  bool swizzled = true;  // over chunk_bytes, 64 or 128
};

CUtensorMap map_rows(const MlaRowMap& rows);

}  // namespace tessera::cuda

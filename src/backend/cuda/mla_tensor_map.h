// Tensor maps over rows of queries or of the cache, for the copy engine of Hopper.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera::cuda {

// [outer, rows, row_bytes], copied in boxes of 64 rows x box_bytes.
struct MlaRowMap {
  const void* data = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t rows = 0;
  std::int64_t outer = 1;
  std::int32_t box_bytes = 128;
  bool swizzled = true;  // over box_bytes, 64 or 128
  bool bf16 = true;      // coordinates along the row count bf16 values; else bytes
};

CUtensorMap map_rows(const MlaRowMap& rows);

}  // namespace tessera::cuda

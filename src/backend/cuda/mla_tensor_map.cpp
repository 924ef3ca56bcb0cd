#include "backend/cuda/mla_tensor_map.h"

#include "backend/cuda/tensor_map.h"

namespace tessera::cuda {

CUtensorMap map_rows(const MlaRowMap& rows) {
  const auto chunk_bytes = static_cast<std::uint64_t>(rows.chunk_bytes);
  const auto row_bytes = static_cast<std::uint64_t>(rows.row_bytes);
  const auto count = static_cast<std::uint64_t>(rows.rows);
  return encode_tensor_map(
      {.data = rows.data,
       .extent = {chunk_bytes, count, static_cast<std::uint64_t>(rows.chunks),
                  static_cast<std::uint64_t>(rows.outer)},
       .stride = {row_bytes, chunk_bytes, row_bytes * count},
       .box = {static_cast<std::uint32_t>(rows.chunk_bytes), static_cast<std::uint32_t>(rows.box_rows),
               static_cast<std::uint32_t>(rows.box_chunks), 1},
       .swizzle = !rows.swizzled            ? CU_TENSOR_MAP_SWIZZLE_NONE
                  : rows.chunk_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                            : CU_TENSOR_MAP_SWIZZLE_64B});
}

}  // namespace tessera::cuda

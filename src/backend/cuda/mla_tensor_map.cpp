#include "backend/cuda/mla_tensor_map.h"

#include <cuda_runtime_api.h>

#include <string>

#include "backend/cuda/device.h"

namespace tessera::cuda {
namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's function, found at run time so that nothing links against the driver.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TS_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                           &found));
  if (function == nullptr || found != cudaDriverEntryPointSuccess) {
    throw DeviceError("the driver has no cuTensorMapEncodeTiled; driver 525 or newer is needed");
  }
  return reinterpret_cast<Encode>(function);
}

}  // namespace

CUtensorMap map_rows(const MlaRowMap& rows) {
  CUtensorMap map;
  const auto chunk_bytes = static_cast<cuuint64_t>(rows.chunk_bytes);
  const auto row_bytes = static_cast<cuuint64_t>(rows.row_bytes);
  const auto count = static_cast<cuuint64_t>(rows.rows);
  const cuuint64_t extent[4] = {chunk_bytes, count, static_cast<cuuint64_t>(rows.chunks),
                                static_cast<cuuint64_t>(rows.outer)};
  const cuuint64_t stride[3] = {row_bytes, chunk_bytes, row_bytes * count};
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(rows.chunk_bytes),
                             static_cast<cuuint32_t>(rows.box_rows), static_cast<cuuint32_t>(rows.box_chunks),
                             1};
  const cuuint32_t step[4] = {1, 1, 1, 1};
  const CUtensorMapSwizzle swizzle = !rows.swizzled            ? CU_TENSOR_MAP_SWIZZLE_NONE
                                     : rows.chunk_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B
                                                               : CU_TENSOR_MAP_SWIZZLE_64B;
  const CUresult status =
      find_encode()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<void*>(rows.data), extent, stride, box,
                    step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError("cuTensorMapEncodeTiled refused [" + std::to_string(rows.outer) + ", " +
                      std::to_string(rows.rows) + ", " + std::to_string(rows.row_bytes) + " bytes]: error " +
                      std::to_string(static_cast<int>(status)));
  }
  return map;
}

}  // namespace tessera::cuda

// Host side of the sm90 kernels: tensor maps and the launch itself.
#pragma once

#include <cuda.h>

#include <string>

#include "backend/cuda/mla_decode_sm90.cuh"

namespace tessera::cuda::sm90 {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// The driver's function, found at run time so that nothing links against the driver.
inline Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TS_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                           &found));
  if (function == nullptr || found != cudaDriverEntryPointSuccess) {
    throw DeviceError("the driver has no cuTensorMapEncodeTiled; driver 525 or newer is needed");
  }
  return reinterpret_cast<Encode>(function);
}

// A map over [outer, rows, 576] bf16 whose copies are boxes of 64 rows x 64 columns, swizzled over 128 bytes.
inline CUtensorMap map_rows(const void* data, std::uint64_t rows, std::uint64_t outer,
                            std::uint32_t dimensions) {
  CUtensorMap map;
  const cuuint64_t extent[3] = {kMlaDim, rows, outer};
  const cuuint64_t stride[2] = {kMlaDim * 2, kMlaDim * 2 * rows};  // bytes
  const cuuint32_t box[3] = {Config::kChunkColumns, Config::kTile, 1};
  const cuuint32_t step[3] = {1, 1, 1};
  const CUresult status =
      find_encode()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, dimensions, const_cast<void*>(data), extent,
                    stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError("cuTensorMapEncodeTiled refused [" + std::to_string(outer) + ", " +
                      std::to_string(rows) + ", 576] bf16: error " +
                      std::to_string(static_cast<int>(status)));
  }
  return map;
}

template <class Rows, bool kLate>
void launch(const MlaDecodeLayout& layout, const MlaArgs& args, std::int32_t blocks, cudaStream_t stream) {
  const auto kernel = decode_kernel<Rows, kLate>;
  TS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::kSharedBytes));
  const std::uint64_t q_rows = static_cast<std::uint64_t>(args.seqs) * args.q_tokens * args.heads;
  const CUtensorMap q_map = map_rows(args.q, q_rows, 1, 2);
  // Only the copy engine needs a map of the cache; the converting forms read it through pointers.
  const CUtensorMap kv_map =
      Rows::kBulkCopy ? map_rows(args.kv, kMlaBlockSize, static_cast<std::uint64_t>(blocks), 3) : q_map;
  const dim3 grid(static_cast<unsigned>(layout.row_tiles), static_cast<unsigned>(layout.parts));
  kernel<<<grid, Config::kThreads, Config::kSharedBytes, stream>>>(args, q_map, kv_map);
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda::sm90

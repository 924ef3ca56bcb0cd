// Tensor maps: how the copy engine of Hopper sees an array, and which box of it one copy brings.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera::cuda {

// Four dimensions, the contiguous one first; those that are not needed have extent and box 1. What a box has
// outside the array arrives as zeros.
struct TensorMapShape {
  const void* data = nullptr;  // 16-byte aligned, as every stride
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  std::uint64_t extent[4] = {1, 1, 1, 1};  // elements
  std::uint64_t stride[3] = {16, 16, 16};  // bytes, of dimensions 1 to 3
  std::uint32_t box[4] = {1, 1, 1, 1};     // elements, at most 256
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
};

CUtensorMap encode_tensor_map(const TensorMapShape& shape);

}  // namespace tessera::cuda

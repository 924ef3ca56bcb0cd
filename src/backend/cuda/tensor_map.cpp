#include "backend/cuda/tensor_map.h"

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

template <class T, std::size_t kCount>
std::string list(const T (&values)[kCount]) {
  std::string text;
  for (const T value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return '[' + text + ']';
}

}  // namespace

CUtensorMap encode_tensor_map(const TensorMapShape& shape) {
  CUtensorMap map;
  const cuuint32_t step[4] = {1, 1, 1, 1};
  cuuint64_t extent[4];
  cuuint64_t stride[3];
  for (int i = 0; i < 4; ++i) extent[i] = shape.extent[i];
  for (int i = 0; i < 3; ++i) stride[i] = shape.stride[i];
  const CUresult status =
      find_encode()(&map, shape.type, 4, const_cast<void*>(shape.data), extent, stride, shape.box, step,
                    CU_TENSOR_MAP_INTERLEAVE_NONE, shape.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError("cuTensorMapEncodeTiled refused extents " + list(shape.extent) + ", strides " +
                      list(shape.stride) + " bytes, box " + list(shape.box) + ": error " +
                      std::to_string(static_cast<int>(status)));
  }
  return map;
}

}  // namespace tessera::cuda

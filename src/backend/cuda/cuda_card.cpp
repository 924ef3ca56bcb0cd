#include "backend/cuda/cuda_card.h"

#include "backend/cuda/device.h"

namespace tessera {
namespace {

std::string device_name(int device) {
  cudaDeviceProp properties{};
  TS_CUDA(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return 0;
  return count;
}

Result<CudaCard> cuda_card(int device) {
  const std::string where = "cuda:" + std::to_string(device);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    return Error{ErrorKind::kUnavailable, where,
                 std::string("no GPU can be used: ") + cudaGetErrorString(status) +
                     ". Check nvidia-smi, or use --device cpu."};
  }
  if (device < 0 || device >= count) {
    return Error{ErrorKind::kNotFound, where,
                 "there are " + std::to_string(count) + " GPUs, counted from 0."};
  }
  try {
    const cuda::DeviceTraits traits = cuda::traits_of(device);
    if (traits.capability < 80) {
      return Error{ErrorKind::kUnsupported, where,
                   "has compute capability " + std::to_string(traits.capability / 10) + "." +
                       std::to_string(traits.capability % 10) + "; 8.0 or newer is needed."};
    }
    std::size_t free = 0;
    std::size_t total = 0;
    TS_CUDA(cudaSetDevice(device));
    TS_CUDA(cudaMemGetInfo(&free, &total));
    return CudaCard{.name = device_name(device),
                    .total_bytes = static_cast<std::int64_t>(total),
                    .free_bytes = static_cast<std::int64_t>(free),
                    .multiprocessors = traits.multiprocessors,
                    .capability = traits.capability};
  } catch (const cuda::DeviceError& error) {
    return Error{ErrorKind::kUnavailable, where, error.what()};
  }
}

}  // namespace tessera

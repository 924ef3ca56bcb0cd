// Kernels that start while the one before them drains (programmatic dependent launch, compute
// capability 9.0). A decode step is some thirty small kernels a layer, and an empty gap between two costs as
// much as a small one.
//
// The rule that makes this safe: every block of a kernel launched here calls wait_for_previous() before it
// touches anything that an earlier kernel writes or reads, and before it leaves. Weights and settings, which
// no kernel of a step writes, may be loaded before. Since nobody passes the wait before the kernel before has
// ended, and that one has waited in turn, all earlier kernels have ended too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "backend/cuda/overlap.h"

namespace tessera::cuda {

// Until the kernel before this one has ended and its results are seen; then the next one may start early.
// Nothing where kernels do not overlap.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct LaunchShape {
  dim3 grid;
  unsigned threads = 0;
  std::size_t shared_bytes = 0;
};

template <class... Parameters>
void launch_early(void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
                  const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = launch_traits().overlaps && !starts_late() ? 1 : 0;
  starts_late() = false;
  TS_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace tessera::cuda

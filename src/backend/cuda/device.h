// CUDA calls that are checked, and owners of CUDA handles. A failed device call ends the rank: it throws
// DeviceError, which is caught once per rank thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "backend/cuda_layout/device_traits.h"

namespace tessera::cuda {

class DeviceError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void cuda_check(cudaError_t status, const char* call, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  throw DeviceError(std::string(file) + ':' + std::to_string(line) + ": " + call + ": " +
                    cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}
#define TS_CUDA(...) ::tessera::cuda::cuda_check((__VA_ARGS__), #__VA_ARGS__)

template <auto Destroy>
struct Destroyer {
  template <class H>
  void operator()(H* handle) const noexcept {
    (void)Destroy(handle);
  }
};
template <class Handle, auto Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<Destroy>>;
using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owned<cudaGraphExec_t, cudaGraphExecDestroy>;
using DeviceBytes = Owned<std::byte*, cudaFree>;

using PinnedBytes = Owned<std::byte*, cudaFreeHost>;

inline PinnedBytes allocate_pinned(std::size_t bytes) {
  void* pointer = nullptr;
  TS_CUDA(cudaMallocHost(&pointer, bytes));
  return PinnedBytes(static_cast<std::byte*>(pointer));
}

// Neither waits for the default stream nor makes it wait.
inline Stream make_stream() {
  cudaStream_t stream = nullptr;
  TS_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

inline Event make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  TS_CUDA(cudaEventCreateWithFlags(&event, flags));
  return Event(event);
}

inline DeviceBytes allocate_device(std::size_t bytes) {
  void* pointer = nullptr;
  TS_CUDA(cudaMalloc(&pointer, bytes));
  return DeviceBytes(static_cast<std::byte*>(pointer));
}

// Read once.
inline DeviceTraits traits_of(int device) {
  DeviceTraits traits;
  int major = 0;
  int minor = 0;
  TS_CUDA(cudaDeviceGetAttribute(&traits.multiprocessors, cudaDevAttrMultiProcessorCount, device));
  TS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  TS_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  TS_CUDA(
      cudaDeviceGetAttribute(&traits.shared_bytes_a_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  TS_CUDA(cudaDeviceGetAttribute(&traits.shared_bytes_a_multiprocessor,
                                 cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  traits.capability = 10 * major + minor;
  return traits;
}

}  // namespace tessera::cuda

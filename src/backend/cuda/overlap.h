// Whether the next kernel may start while the one before drains (overlap.cuh), for those who only enqueue.
#pragma once

#include "backend/cuda/device.h"

namespace tessera::cuda {

// Whether the current device overlaps kernels.
inline bool kernels_overlap() {
  struct Known {
    int device = -1;
    bool overlap = false;
  };
  thread_local Known known;
  int device = 0;
  TS_CUDA(cudaGetDevice(&device));
  if (device != known.device) {
    int major = 0;
    TS_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    known = {device, major >= 9};
  }
  return known.overlap;
}

// Set where what is launched next follows work of another stream: it starts when all of that has ended.
inline bool& starts_late() {
  thread_local bool late = false;
  return late;
}

}  // namespace tessera::cuda

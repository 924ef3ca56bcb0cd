// What a launch needs to know of the current device and stream, for those who only enqueue too.
#pragma once

#include "backend/cuda/device.h"

namespace tessera::cuda {

// What a launch asks of the current device, read once a thread.
struct LaunchTraits {
  int device = -1;
  bool overlaps = false;
  int shared_bytes_a_block = 0;  // the opt-in limit
};
inline const LaunchTraits& launch_traits() {
  thread_local LaunchTraits known;
  int device = 0;
  TS_CUDA(cudaGetDevice(&device));
  if (device != known.device) {
    const DeviceTraits traits = traits_of(device);
    known = {device, traits.capability >= 90, traits.shared_bytes_a_block};
  }
  return known;
}

// Set where what is launched next follows work of another stream: it starts when all of that has ended.
inline bool& starts_late() {
  thread_local bool late = false;
  return late;
}

}  // namespace tessera::cuda

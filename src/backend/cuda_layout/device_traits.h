// What launches and scratch depend on of a GPU.
#pragma once

namespace tessera::cuda {

struct DeviceTraits {
  int multiprocessors = 0;
  int capability = 0;            // 90 for compute capability 9.0
  int shared_bytes_a_block = 0;  // the opt-in limit
  int shared_bytes_a_multiprocessor = 0;
};

}  // namespace tessera::cuda

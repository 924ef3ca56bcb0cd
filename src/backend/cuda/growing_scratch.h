// Device memory that grows when a call needs more than was reserved, and never in between.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "backend/cuda/device.h"

namespace tessera::cuda {

class GrowingScratch {
 public:
  void* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      if (memory_) outgrown_.push_back(std::move(memory_));  // recordings may still name it
      memory_ = allocate_device(bytes);
      TS_CUDA(cudaMemset(memory_.get(), 0, bytes));
      TS_CUDA(cudaDeviceSynchronize());
      bytes_ = bytes;
    }
    return memory_.get();
  }
  std::size_t capacity() const { return bytes_; }

 private:
  DeviceBytes memory_;
  std::vector<DeviceBytes> outgrown_;
  std::size_t bytes_ = 0;
};

}  // namespace tessera::cuda

// The GPUs of this machine, before one is used.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tessera {

// GPUs that can be used; 0 without a driver.
int cuda_device_count();

struct CudaCard {
  std::string name;
  std::int64_t total_bytes = 0;
  std::int64_t free_bytes = 0;  // now
  int multiprocessors = 0;
  int capability = 0;  // 90 for 9.0
};
// What is known of a device without using it; an error where it cannot be used.
Result<CudaCard> cuda_card(int device);

}  // namespace tessera

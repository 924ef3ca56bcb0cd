// Times between events of a device.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "backend/cuda/device.h"

namespace tessera::bench {

inline cuda::Event make_timed_event() { return cuda::make_event(cudaEventDefault); }

inline double elapsed_us(const cuda::Event& from, const cuda::Event& to) {
  float milliseconds = 0.0F;
  TS_CUDA(cudaEventElapsedTime(&milliseconds, from.get(), to.get()));
  return 1e3 * milliseconds;
}

// Values at 10, 50 and 90 percent.
inline std::array<double, 3> spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.1), at(0.5), at(0.9)};
}

}  // namespace tessera::bench

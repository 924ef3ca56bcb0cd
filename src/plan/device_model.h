// What a device makes of weights and scratch, in bytes: enough to plan its memory without having it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "backend/backend.h"
#include "plan/gpu_card.h"

namespace tessera {

struct DeviceModel {
  std::string name;  // "cpu", "RTX PRO 6000"
  DType activation = DType::kBF16;
  // Of `count` matrices [out, in] in the device's layout, scales and padding included.
  std::function<std::int64_t(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in)>
      stack_bytes;
  // What is held after Backend::reserve of each of these.
  std::function<std::size_t(std::span<const Backend::Limits> reserved)> reserve_bytes;
};

// The CPU back-end with so many threads: its own arithmetic, so exact.
DeviceModel cpu_device(int threads);
// The CUDA back-end on such a card: the arithmetic by which it takes its memory (backend/cuda_layout).
DeviceModel gpu_device(const GpuCard& card, bool batch_invariant = false);

}  // namespace tessera

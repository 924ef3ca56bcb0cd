// What a device makes of weights and scratch, in bytes: enough to plan its memory without having it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "backend/backend.h"
#include "plan/gpu_card.h"

namespace tessera {

struct DeviceModel {
  std::string name;  // "cpu", "RTX PRO 6000"
  DType activation = DType::kBF16;
  // Of `count` matrices [out, in] in the device's layout, scales included.
  std::function<std::int64_t(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in)>
      stack_bytes;
  // What Backend::reserve would hold for these limits.
  std::function<std::size_t(const Backend::Limits& limits)> reserve_bytes;
};

// The CPU back-end with so many threads: its own arithmetic, so exact.
DeviceModel cpu_device(int threads);
// The CUDA back-end on such a card; query_tokens: most of one sequence in decode form (1 + drafts).
DeviceModel gpu_device(const GpuCard& card, std::int64_t query_tokens);

// Scratch of decode attention on `multiprocessors`: two partial results for each part that the work is
// divided into, whatever the lengths, the batch and max-model-len are (backend/cuda/mla_plan.h divides it).
std::int64_t mla_split_scratch_bytes(std::int64_t multiprocessors, std::int64_t heads,
                                     std::int64_t query_tokens, bool hopper);

}  // namespace tessera

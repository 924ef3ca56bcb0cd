// What --device means on this machine: which device computes, and a back-end for each rank.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "plan/device_model.h"

namespace tessera {

enum class ComputeDevice { kCpu, kCuda };

struct ComputeChoice {
  std::string device = "auto";  // of --device: auto, cpu or cuda
  int ranks = 1;
};
// auto takes a GPU where this build and this machine have one and one rank is asked for.
Result<ComputeDevice> choose_device(const ComputeChoice& choice);

struct BackendChoice {
  ComputeDevice device = ComputeDevice::kCpu;
  int threads = 0;  // of the CPU
  bool batch_invariant = false;
};
Result<std::unique_ptr<Backend>> make_backend(const BackendChoice& choice);

// What the device makes of weights and scratch, for planning its memory.
Result<DeviceModel> model_of_device(const BackendChoice& choice);
// The cache's share where no flag names one: 2 GiB of the CPU's memory, or of a GPU's free memory 90 % less
// what a rank holds besides.
Result<std::int64_t> default_kv_bytes(ComputeDevice device, std::int64_t besides);

// The format that --kv-cache-dtype auto stands for: what the device computes in.
constexpr KvFormat automatic_kv_format(ComputeDevice device) {
  return device == ComputeDevice::kCuda ? KvFormat::kBF16 : KvFormat::kF32;
}

}  // namespace tessera

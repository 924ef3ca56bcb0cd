// What --device means on this machine: which device computes, and a back-end for each rank.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "base/result.h"
#include "comm/communicator.h"
#include "plan/device_model.h"

namespace tessera {

enum class ComputeDevice { kCpu, kCuda };

struct ComputeChoice {
  std::string device = "auto";  // of --device: auto, cpu or cuda
  int ranks_here = 1;           // on this machine: each needs a GPU
  bool several = false;         // more than one rank in all: they need NCCL
};
// auto takes GPUs where this build and this machine have one for each rank, and what connects them.
Result<ComputeDevice> choose_device(const ComputeChoice& choice);

struct BackendChoice {
  ComputeDevice device = ComputeDevice::kCpu;
  int threads = 0;  // of the CPU
  int gpu = 0;
  std::chrono::milliseconds patience{0};  // CudaOptions::patience
  bool batch_invariant = false;
};
Result<std::unique_ptr<Backend>> make_backend(const BackendChoice& choice);

struct DeviceGroupOptions {
  std::optional<std::string> nccl_graph_file;  // the value of NCCL_GRAPH_FILE
  bool peer_all_reduce = false;                // small sums by writes to peers, where that works and pays
  std::chrono::milliseconds deadline{60'000};
  std::function<void(const std::string&)> log;  // a sentence a group; may be empty
};
// The ranks of `host` once more as a group over the memory of their GPUs. Every rank calls it with its own
// back-end, which is a GPU's; both outlive the group.
Result<std::unique_ptr<Communicator>> make_device_group(Communicator& host, Backend& backend,
                                                        const DeviceGroupOptions& options);

// What can be taken on the device now: of the CPU's memory, what neither programs nor a container's limit
// hold back.
Result<std::int64_t> free_memory(const BackendChoice& choice);

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

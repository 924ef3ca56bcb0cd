#include "compute_device.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#ifdef TESSERA_HAS_CUDA
#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_card.h"
#endif
#ifdef TESSERA_HAS_NCCL
#include "comm/nccl/nccl_communicator.h"
#include "comm/peer/peer_communicator.h"
#endif

namespace tessera {
namespace {

#ifdef TESSERA_HAS_CUDA
constexpr bool kHasCuda = true;
#else
constexpr bool kHasCuda = false;
int cuda_device_count() { return 0; }
#endif

Error refusal(ErrorKind kind, std::string what) { return {kind, "--device", std::move(what)}; }

Result<void> can_connect_gpus() {
#ifdef TESSERA_HAS_NCCL
  if (const auto api = open_nccl(); !api) return api.error();
  return {};
#else
  return refusal(
      ErrorKind::kUnsupported,
      "is cuda with several ranks, but this program was built without nccl.h. Build it where NCCL's "
      "header is, or use one rank.");
#endif
}

}  // namespace

Result<ComputeDevice> choose_device(const ComputeChoice& choice) {
  if (choice.device == "cpu") return ComputeDevice::kCpu;
  const bool wanted = choice.device == "cuda";
  if (!kHasCuda) {
    if (!wanted) return ComputeDevice::kCpu;
    return refusal(ErrorKind::kUnsupported,
                   "is cuda, but this program was built without nvcc. Build it where CUDA is, or use cpu.");
  }
  const int present = cuda_device_count();
  if (wanted && present == 0) {
    return refusal(ErrorKind::kUnavailable,
                   "is cuda, but no GPU can be used here. Check nvidia-smi, or use cpu.");
  }
  if (wanted && choice.ranks_here > present) {
    return refusal(ErrorKind::kInvalidArgument,
                   "is cuda, where each rank needs a GPU, but " + std::to_string(choice.ranks_here) +
                       " ranks run on this machine, which has " + std::to_string(present) +
                       ". The nearest --tensor-parallel-size that works has " + std::to_string(present) +
                       (present == 1 ? " rank" : " ranks") + " a machine; or use cpu.");
  }
  if (present == 0 || present < choice.ranks_here) return ComputeDevice::kCpu;
  if (choice.several) {
    const auto connected = can_connect_gpus();
    if (!connected && wanted) return connected.error();
    if (!connected) return ComputeDevice::kCpu;
  }
  return ComputeDevice::kCuda;
}

Result<std::unique_ptr<Backend>> make_backend(const BackendChoice& choice) {
#ifdef TESSERA_HAS_CUDA
  if (choice.device == ComputeDevice::kCuda) {
    constexpr int kMostReaders = 16;  // more do not read faster
    return make_cuda_backend({.device = choice.gpu,
                              .batch_invariant = choice.batch_invariant,
                              .load_threads = std::clamp(choice.threads, 1, kMostReaders),
                              .patience = choice.patience});
  }
#endif
  return make_cpu_backend({.threads = choice.threads});
}

Result<std::unique_ptr<Communicator>> make_device_group(Communicator& host, Backend& backend,
                                                        const DeviceGroupOptions& options) {
#ifdef TESSERA_HAS_NCCL
  TS_TRY(const NcclApi api, open_nccl());
  DeviceStream& stream = cuda_stream_of(backend);
  TS_TRY(auto group,
         make_nccl_communicator(
             api, host, stream,
             {.graph_file = options.nccl_graph_file, .deadline = options.deadline, .log = options.log}));
  if (!options.peer_all_reduce) return group;
  try {
    PeerOptions peers;
    peers.patience = options.deadline;
    peers.log = options.log;
    return with_peer_all_reduce(std::move(group), host, stream, peers);
  } catch (const CommError& error) {
    return Error{ErrorKind::kUnavailable, "--enable-pcie-allreduce", error.what()};
  }
#else
  (void)options;
  return Error{ErrorKind::kUnsupported, host.name(), "cannot be connected over " + backend.name() + "."};
#endif
}

Result<DeviceModel> model_of_device(const BackendChoice& choice) {
#ifdef TESSERA_HAS_CUDA
  if (choice.device == ComputeDevice::kCuda) {
    TS_TRY(const CudaCard card, cuda_card(choice.gpu));
    const double gib = static_cast<double>(card.total_bytes) / static_cast<double>(std::int64_t{1} << 30);
    return gpu_device({.name = card.name,
                       .visible_gib = gib,
                       .multiprocessors = card.multiprocessors,
                       .capability = card.capability},
                      choice.batch_invariant);
  }
#endif
  return cpu_device(choice.threads);
}

Result<std::int64_t> free_memory(const BackendChoice& choice) {
#ifdef TESSERA_HAS_CUDA
  if (choice.device == ComputeDevice::kCuda) {
    TS_TRY(const CudaCard card, cuda_card(choice.gpu));
    return card.free_bytes;
  }
#endif
  (void)choice;
  std::int64_t bytes = 0;
  std::ifstream memory("/proc/meminfo");
  for (std::string line; std::getline(memory, line);) {
    if (line.starts_with("MemAvailable:")) bytes = std::atoll(line.c_str() + 13) << 10;
  }
  if (bytes == 0) return Error{ErrorKind::kIo, "/proc/meminfo", "It does not say what memory is available."};
  // A container's limit and what it uses, where there is one; "max" is not a number.
  std::int64_t limit = 0, used = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max"), used_file("/sys/fs/cgroup/memory.current");
  if (limit_file >> limit && used_file >> used)
    bytes = std::min(bytes, std::max<std::int64_t>(limit - used, 0));
  return bytes;
}

Result<std::int64_t> default_kv_bytes(ComputeDevice device, std::int64_t besides) {
  constexpr std::int64_t kOnCpu = std::int64_t{2} << 30;
#ifdef TESSERA_HAS_CUDA
  if (device == ComputeDevice::kCuda) {
    TS_TRY(const CudaCard card, cuda_card(0));
    return std::max(card.free_bytes / 10 * 9 - besides, std::int64_t{1} << 20);
  }
#endif
  (void)device;
  (void)besides;
  return kOnCpu;
}

}  // namespace tessera

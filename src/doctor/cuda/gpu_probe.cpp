#include "doctor/cuda/gpu_probe.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_card.h"
#include "backend/cuda/device.h"
#include "bench/step/ceilings.h"
#include "bench/weights/pinned_copy.h"
#include "comm/thread_communicator.h"
#include "doctor/cuda/pair_probe.h"
#include "doctor/host_probe.h"
#ifdef TESSERA_HAS_NCCL
#include "comm/nccl/nccl_communicator.h"
#include "comm/peer/peer_communicator.h"
#endif

namespace tessera::doctor {
namespace {

constexpr std::chrono::milliseconds kPatience{20'000};  // for a rank that does not come

std::string address_of(int device) {
  std::array<char, 32> text{};
  TS_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), device));
  std::string address = text.data();
  for (char& c : address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return address;
}

GpuFigures probe_alone(int device) {
  const Result<CudaCard> card = cuda_card(device);
  if (!card) throw cuda::DeviceError(card.error().message());
  GpuFigures gpu{.name = card->name,
                 .address = address_of(device),
                 .memory_bytes = card->total_bytes,
                 .capability = card->capability};
  const auto backend = make_cuda_backend({.device = device});
  if (!backend) throw cuda::DeviceError(backend.error().message());
  const bench::Ceilings ceilings = bench::measure_ceilings(**backend, 0);
  gpu.memory_gb_s = ceilings.read_gb_s;
  gpu.tflop_s = ceilings.tflop_s;
  gpu.from_host_gb_s = bench::pinned_copy_gb_s(device);
  return gpu;
}

#ifdef TESSERA_HAS_NCCL
// What rank 0 learns; every rank takes part.
void probe_sums(const NcclApi& api, Communicator& host, int device, Measured& measured) {
  const auto backend = make_cuda_backend({.device = device, .patience = kPatience});
  if (!backend) throw cuda::DeviceError(backend.error().message());
  DeviceStream& stream = cuda_stream_of(**backend);
  auto group =
      make_nccl_communicator(api, host, stream, {.graph_file = {}, .deadline = kPatience, .log = {}});
  if (!group) throw CommError(group.error().message());
  const PeerTrial trial = try_peers(**group, host, stream, {.most_bytes = kMostSum, .log = {}});
  if (host.rank() != 0) return;
  for (const WayTimes& one : trial.times) {
    measured.all_reduces.push_back({"NCCL", one.bytes, one.long_us});
    if (!trial.objection) measured.all_reduces.push_back({"one shot", one.bytes, one.short_us});
  }
  measured.one_shot_objection = trial.objection.value_or("");
}
#endif

void probe_together(int gpus, Measured& measured) {
#ifdef TESSERA_HAS_NCCL
  const auto api = open_nccl();
  if (!api) {
    measured.nccl_objection = api.error().message();
    return;
  }
  auto hosts = make_thread_communicators(gpus, "doctor", kPatience);
  std::mutex mutex;  // of nccl_objection
  std::vector<std::jthread> threads;
  for (int r = 0; r < gpus; ++r) {
    threads.emplace_back([&, r] {
      const std::unique_ptr<Communicator> host = std::move(hosts[static_cast<std::size_t>(r)]);
      try {
        probe_sums(*api, *host, r, measured);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (measured.nccl_objection.empty()) measured.nccl_objection = error.what();
      }
    });
  }
#else
  (void)gpus;
  measured.nccl_objection = "this program was built without nccl.h.";
#endif
}

}  // namespace

void probe_gpus(Measured& measured, const std::function<void(const std::string&)>& say) {
  measured.has_cuda_code = true;
  (void)cudaDriverGetVersion(&measured.cuda_of_driver);
  (void)cudaRuntimeGetVersion(&measured.cuda_of_program);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    measured.unavailable = std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status) + '.';
    return;
  }
  try {
    for (int i = 0; i < count; ++i) {
      say("GPU " + std::to_string(i) + " alone");
      measured.gpus.push_back(probe_alone(i));
    }
    for (int from = 0; from < count; ++from) {
      for (int to = 0; to < count; ++to) {
        if (from == to) continue;
        say("GPU " + std::to_string(from) + " to GPU " + std::to_string(to));
        measured.pairs.push_back(probe_pair(from, to));
        // A device that hangs answers nothing any more.
        if (measured.pairs.back().gb_s <= 0) return;
      }
    }
    if (count < 2) return;
    say("sums of " + std::to_string(count) + " GPUs");
    probe_together(count, measured);
  } catch (const std::exception& error) {
    measured.unavailable = error.what();
  }
}

}  // namespace tessera::doctor

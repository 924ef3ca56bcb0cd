#include "compute_device.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#ifdef TESSERA_HAS_CUDA
#include "backend/cuda/cuda_backend.h"
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

}  // namespace

Result<ComputeDevice> choose_device(const ComputeChoice& choice) {
  if (choice.device == "cpu") return ComputeDevice::kCpu;
  const bool wanted = choice.device == "cuda";
  if (!kHasCuda) {
    if (!wanted) return ComputeDevice::kCpu;
    return refusal(ErrorKind::kUnsupported,
                   "is cuda, but this program was built without nvcc. Build it where CUDA is, or use cpu.");
  }
  const bool present = cuda_device_count() > 0;
  if (wanted && !present) {
    return refusal(ErrorKind::kUnavailable,
                   "is cuda, but no GPU can be used here. Check nvidia-smi, or use cpu.");
  }
  if (wanted && choice.ranks > 1) {
    return refusal(ErrorKind::kUnsupported, "is cuda, which runs one rank so far, but " +
                                                std::to_string(choice.ranks) +
                                                " ranks were asked for. Use one, or cpu.");
  }
  return present && choice.ranks == 1 ? ComputeDevice::kCuda : ComputeDevice::kCpu;
}

Result<std::unique_ptr<Backend>> make_backend(const BackendChoice& choice) {
#ifdef TESSERA_HAS_CUDA
  if (choice.device == ComputeDevice::kCuda) {
    return make_cuda_backend({.batch_invariant = choice.batch_invariant});
  }
#endif
  return make_cpu_backend({.threads = choice.threads});
}

Result<DeviceModel> model_of_device(const BackendChoice& choice) {
#ifdef TESSERA_HAS_CUDA
  if (choice.device == ComputeDevice::kCuda) {
    TS_TRY(const CudaCard card, cuda_card(0));
    const double gib = static_cast<double>(card.total_bytes) / static_cast<double>(std::int64_t{1} << 30);
    return gpu_device({.name = card.name,
                       .visible_gib = gib,
                       .multiprocessors = card.multiprocessors,
                       .capability = card.capability},
                      1);
  }
#endif
  return cpu_device(choice.threads);
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

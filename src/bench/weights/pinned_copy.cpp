#include "bench/weights/pinned_copy.h"

#include <algorithm>
#include <chrono>

#include "backend/cuda/device.h"
#include "backend/cuda/weight_upload.h"

namespace tessera::bench {

double pinned_copy_gb_s(int device) {
  constexpr int kTurns = 64;
  constexpr int kRounds = 3;
  const auto bytes = static_cast<std::size_t>(cuda::WeightUpload::kBlockBytes);
  TS_CUDA(cudaSetDevice(device));
  const cuda::PinnedBytes pinned = cuda::allocate_pinned(bytes);
  const cuda::DeviceBytes on_device = cuda::allocate_device(bytes);
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    TS_CUDA(cudaDeviceSynchronize());
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kTurns; ++i)
      TS_CUDA(cudaMemcpyAsync(on_device.get(), pinned.get(), bytes, cudaMemcpyHostToDevice, nullptr));
    TS_CUDA(cudaDeviceSynchronize());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, static_cast<double>(bytes) * kTurns / 1e9 / seconds);
  }
  return best;
}

}  // namespace tessera::bench

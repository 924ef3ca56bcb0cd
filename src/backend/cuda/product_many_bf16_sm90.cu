#include "backend/cuda/product_many_sm90.cuh"

namespace tessera::cuda {

void launch_many_bf16_sm90(const Product& p, const ManyDevice& device, cudaStream_t stream) {
  launch_many_sm90<WeightFormat::kBF16>(p, device, stream);
}

// All formats have one block a multiprocessor.
ManyDevice many_device(int multiprocessors) {
  ManyDevice device{.multiprocessors = multiprocessors};
  for (int split = 1; split <= kMostSplit; ++split) {
    cudaLaunchAttribute cluster;
    cudaLaunchConfig_t config = configure<WeightFormat::kBF16>(split, cluster);
    config.gridDim = dim3(static_cast<unsigned>(split));
    TS_CUDA(cudaOccupancyMaxActiveClusters(&device.clusters[split - 1],
                                           product_many_sm90_kernel<WeightFormat::kBF16>, &config));
  }
  return device;
}

}  // namespace tessera::cuda

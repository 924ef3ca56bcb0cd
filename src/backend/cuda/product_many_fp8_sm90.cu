#include "backend/cuda/product_many_sm90.cuh"

namespace tessera::cuda {

void launch_many_fp8_sm90(const Product& p, const ManyDevice& device, cudaStream_t stream) {
  launch_many_sm90<WeightFormat::kFp8Block128>(p, device, stream);
}

}  // namespace tessera::cuda

#include "backend/cuda/product_many_sm90.cuh"

namespace tessera::cuda {

void launch_many_int4_sm90(const Product& p, const ManyDevice& device, cudaStream_t stream) {
  launch_many_sm90<WeightFormat::kInt4Group32>(p, device, stream);
}

}  // namespace tessera::cuda

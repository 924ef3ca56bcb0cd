#include "backend/cuda/product_many.cuh"

namespace tessera::cuda {

void launch_many_bf16(const Product& product, cudaStream_t stream) {
  launch_many_of<WeightFormat::kBF16>(product, stream);
}

}  // namespace tessera::cuda

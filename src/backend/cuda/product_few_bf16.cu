#include "backend/cuda/product_few.cuh"

namespace tessera::cuda {

void launch_few_bf16(const Product& product, int x_tile, cudaStream_t stream) {
  launch_few_of<WeightFormat::kBF16>(product, x_tile, stream);
}

}  // namespace tessera::cuda

#include "backend/cuda/product_many.cuh"

namespace tessera::cuda {

void launch_many_fp8(const Product& product, cudaStream_t stream) {
  launch_many_of<WeightFormat::kFp8Block128>(product, stream);
}

}  // namespace tessera::cuda

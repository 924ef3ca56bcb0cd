#include "backend/cuda/product_many.cuh"

namespace tessera::cuda {

void launch_many_int4(const Product& product, cudaStream_t stream) {
  launch_many_of<WeightFormat::kInt4Group32>(product, stream);
}

}  // namespace tessera::cuda

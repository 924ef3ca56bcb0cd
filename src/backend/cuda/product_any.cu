#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/product.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kTile = 16;  // rows of x and of W a block, and columns a step

template <class T>
__global__ void product_any_kernel(const __grid_constant__ Product p) {
  __shared__ float x_tile[kTile][kTile + 1];
  __shared__ float w_tile[kTile][kTile + 1];
  ProductItem item{static_cast<std::int32_t>(blockIdx.z), static_cast<std::int32_t>(blockIdx.y) * kTile, 0};
  if (p.items != nullptr) {
    if (static_cast<std::int32_t>(blockIdx.y) >= *p.item_count) return;
    item = p.items[blockIdx.y];
  } else {
    item.count = min(kTile, p.rows - item.first);
  }
  const int a = static_cast<int>(threadIdx.x) / kTile;
  const int b = static_cast<int>(threadIdx.x) % kTile;
  const std::int64_t w_first = std::int64_t{blockIdx.x} * kTile;
  for (int x_first = 0; x_first < item.count; x_first += kTile) {
    const std::int64_t row = item.first + x_first + a;
    const bool has_row = x_first + a < item.count;
    const T* x = static_cast<const T*>(p.x) + item.matrix * p.x_matrix_stride +
                 (has_row ? (p.x_rows ? p.x_rows[row] : row) : 0) * p.x_stride;
    float sum = 0;
    for (std::int64_t col = 0; col < p.weight.in; col += kTile) {
      x_tile[a][b] = has_row && col + b < p.weight.in ? widen(x[col + b]) : 0.0F;
      w_tile[a][b] = w_first + a < p.weight.out && col + b < p.weight.in
                         ? weight_at(p.weight, item.matrix, w_first + a, col + b)
                         : 0.0F;
      __syncthreads();
      for (int i = 0; i < kTile; ++i) sum += x_tile[a][i] * w_tile[b][i];
      __syncthreads();
    }
    if (has_row && w_first + b < p.weight.out) {
      const std::int64_t at = item.matrix * p.y_matrix_stride + row * p.y_stride + w_first + b;
      if (p.y_dtype == DType::kF32) {
        static_cast<float*>(p.y)[at] = sum;
      } else {
        static_cast<bf16*>(p.y)[at] = narrow<bf16>(sum);
      }
    }
  }
}

}  // namespace

void launch_product_any(const Product& p, cudaStream_t stream) {
  TS_CHECK(!p.gated);
  dim3 grid(grid_of(p.weight.out, kTile));
  if (p.items != nullptr) {
    grid.y = static_cast<unsigned>(p.item_limit);
  } else {
    grid.y = grid_of(p.rows, kTile);
    grid.z = static_cast<unsigned>(p.weight.count);
  }
  with_activation(p.x_dtype, [&]<class T>(T) {
    product_any_kernel<T><<<grid, kTile * kTile, 0, stream>>>(p);
    TS_CUDA(cudaGetLastError());
  });
}

bool can_tile(const Product& p) {
  const auto address = reinterpret_cast<std::uintptr_t>(p.x);
  return p.x_dtype == DType::kBF16 && p.weight.format != WeightFormat::kF32 && address % 16 == 0 &&
         p.x_stride % 8 == 0 && p.x_matrix_stride % 8 == 0 && p.weight.in % 8 == 0 &&
         (!p.gated || p.weight.out % 32 == 0);
}

void launch_product_few(const Product& p, int x_tile, cudaStream_t stream) {
  TS_CHECK(can_tile(p));
  switch (p.weight.format) {
    case WeightFormat::kBF16:
      return launch_few_bf16(p, x_tile, stream);
    case WeightFormat::kFp8Block128:
      return launch_few_fp8(p, x_tile, stream);
    case WeightFormat::kInt4Group32:
      return launch_few_int4(p, x_tile, stream);
    case WeightFormat::kF32:
      break;
  }
}

void launch_product_many(const Product& p, cudaStream_t stream) {
  TS_CHECK(can_tile(p));
  switch (p.weight.format) {
    case WeightFormat::kBF16:
      return launch_many_bf16(p, stream);
    case WeightFormat::kFp8Block128:
      return launch_many_fp8(p, stream);
    case WeightFormat::kInt4Group32:
      return launch_many_int4(p, stream);
    case WeightFormat::kF32:
      break;
  }
}

}  // namespace tessera::cuda

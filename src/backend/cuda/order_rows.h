// Rows of activations as the many-row product on Hopper takes them: gathered, and in wgmma order
// (product_many_sm90.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera::cuda {

struct RowOrder {
  const void* x = nullptr;               // bf16, 16-byte aligned
  std::int64_t x_stride = 0;             // elements, a multiple of 8
  std::int64_t rows = 0;                 // of y
  std::int64_t cols = 0;                 // a multiple of 8
  const std::int32_t* x_rows = nullptr;  // where row r of y lies in x; null: at r
  const std::int32_t* count = nullptr;   // on the device: rows of y that there are; null: all
  void* y = nullptr;                     // [rows, y_stride] bf16
  std::int64_t y_stride = 0;  // a multiple of 8; in wgmma order of 32, and columns past `cols` become 0
  bool wgmma_order = false;
  // Rows in f16, each divided by the power of two that is put here, so that its largest value is just inside
  // the range; null: in bf16, as they are. Exact but for values of less than 2^-28 of the largest, whose
  // error is less than 2^-38 of it.
  float* y_scale = nullptr;  // [rows]
};
void launch_order_rows(const RowOrder& order, cudaStream_t stream);

}  // namespace tessera::cuda

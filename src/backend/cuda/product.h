// Matrix products y = x W^T over weights in the device layout: plain, one matrix a head, or one an expert.
//
//   few    x through registers, W streamed once at memory speed: up to 32 rows of x a block. The sums of an
//          element run in one order whatever the number of rows.
//   many   x through shared memory, 64 rows of x x 256 rows of W a block of 8 warps. Hopper has a form of its
//          own (product_many_sm90.h).
//   any    plain loops, any shape and f32 activations too; for odd shapes and as the yardstick of the others.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda_layout/expert_layout.h"
#include "backend/cuda_layout/weight_layout.h"
#include "tensor/dtype.h"

namespace tessera::cuda {

struct Product {
  TiledWeight weight;
  const void* x = nullptr;           // [rows, in]; bf16 for few and many
  std::int64_t x_stride = 0;         // elements
  std::int64_t x_matrix_stride = 0;  // elements, from matrix to matrix of the stack
  void* y = nullptr;                 // [rows, out]; gated: [rows, out / 2]
  std::int64_t y_stride = 0;
  std::int64_t y_matrix_stride = 0;
  DType x_dtype = DType::kBF16;
  DType y_dtype = DType::kBF16;
  std::int32_t rows = 0;
  bool gated = false;  // W is [gate; up]: y = silu(gate x) * up x. few and many only.

  // Experts: which rows meet which matrix, made on the device. Null: all rows meet every matrix.
  const ProductItem* items = nullptr;        // [item_limit]
  const std::int32_t* item_count = nullptr;  // how many there are
  std::int32_t item_limit = 0;               // how many there may be: the launch
  const std::int32_t* x_rows = nullptr;      // where row r of x lies; null: at r
  // One token: item i is its i-th choice, without a list. few only.
  const std::int32_t* ids = nullptr;  // [item_limit] experts
  std::int32_t first_expert = 0;
  // Many on Hopper: rows of x in wgmma order were divided by these powers of two; null: by none.
  const float* x_scale = nullptr;  // [rows]
  bool same_x = false;             // every item meets row 0 of x
  // The list or the ids may be the work of the kernel right before this one. False where the kernel before is
  // a product over the same list, which has waited for them: then weights are loaded while it drains. few
  // only.
  bool waits_first = false;
};

enum class ProductForm : std::uint8_t { kFew, kMany, kAny };

inline constexpr int kManyRows = 64;  // of x, a block

// What alignment and shape allow; the choice between few and many is the caller's.
bool can_tile(const Product& product);

// x_tile: rows of x an item has at most: 8, 16 or 32.
void launch_product_few(const Product& product, int x_tile, cudaStream_t stream);
void launch_product_many(const Product& product, cudaStream_t stream);
void launch_product_any(const Product& product, cudaStream_t stream);

// One file a format, so that they compile apart.
void launch_few_bf16(const Product& product, int x_tile, cudaStream_t stream);
void launch_few_fp8(const Product& product, int x_tile, cudaStream_t stream);
void launch_few_int4(const Product& product, int x_tile, cudaStream_t stream);
void launch_many_bf16(const Product& product, cudaStream_t stream);
void launch_many_fp8(const Product& product, cudaStream_t stream);
void launch_many_int4(const Product& product, cudaStream_t stream);

}  // namespace tessera::cuda

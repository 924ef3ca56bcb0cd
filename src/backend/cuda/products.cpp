#include "backend/cuda/products.h"

#include <algorithm>

#include "backend/cuda/order_rows.h"

namespace tessera::cuda {
namespace {

// Rows of x from which the many-row form may be the faster one.
constexpr std::int64_t kFewRows = 32;

// Matrices whose rows need no padding lie one after the other: with one input for all and outputs side by
// side they are one tall matrix.
TiledWeight as_one(const TiledWeight& w, std::int64_t x_head_stride, std::int64_t out_head_stride) {
  if (w.count == 1 || x_head_stride != 0 || out_head_stride != w.out || w.out % kRowPadding != 0) return w;
  TiledWeight one = w;
  one.count = 1;
  one.out = w.out * w.count;
  return one;
}

bool takes_wgmma(const Product& p, const ProductChoice& choice) {
  if (choice.hopper == nullptr || choice.batch_invariant || p.rows <= kFewRows) return false;
  if (!takes_wgmma_order(p.weight.format)) return true;
  return (p.weight.count == 1 || p.x_matrix_stride == 0) && choice.order != nullptr;
}

void run_wgmma(const Product& p, const ProductChoice& choice, cudaStream_t stream) {
  if (!takes_wgmma_order(p.weight.format)) return launch_product_many_sm90(p, *choice.hopper, stream);
  const std::int64_t cols = padded(p.weight.in, 32);
  const std::int64_t most = std::min<std::int64_t>(p.rows, kOrderedRows);
  auto* scales = static_cast<float*>(choice.order->at_least(ordered_bytes(most, cols)));
  void* ordered = scales + padded(most, 64);
  for (std::int64_t first = 0; first < p.rows; first += most) {
    Product slice = p;
    slice.rows = static_cast<std::int32_t>(std::min(most, p.rows - first));
    slice.x = ordered;
    slice.x_stride = cols;
    slice.x_scale = takes_scaled_rows(p.weight.format) ? scales : nullptr;
    slice.y = static_cast<std::byte*>(p.y) + first * p.y_stride * bytes_of(p.y_dtype);
    launch_order_rows({.x = static_cast<const std::byte*>(p.x) + first * p.x_stride * bytes_of(p.x_dtype),
                       .x_stride = p.x_stride,
                       .rows = slice.rows,
                       .cols = p.weight.in,
                       .y = ordered,
                       .y_stride = cols,
                       .wgmma_order = true,
                       .y_scale = takes_scaled_rows(p.weight.format) ? scales : nullptr},
                      stream);
    launch_product_many_sm90(slice, *choice.hopper, stream);
  }
}

void launch_tiled(const Product& product, const ProductChoice& choice, cudaStream_t stream) {
  if (takes_wgmma(product, choice)) return run_wgmma(product, choice, stream);
  const TiledWeight& w = product.weight;
  const std::int64_t rows = product.rows;
  const std::int64_t many_blocks = (w.out + 255) / 256 * w.count * ((rows + kManyRows - 1) / kManyRows);
  // A block of the many-row form fills a multiprocessor; with fewer blocks than those, streaming is faster.
  if (rows > kFewRows && !choice.batch_invariant && many_blocks >= choice.multiprocessors * 3 / 4) {
    return launch_product_many(product, stream);
  }
  launch_product_few(product, rows <= 8 ? 8 : rows <= 16 ? 16 : 32, stream);
}

}  // namespace

void run_linear_heads(const Tensor& x, std::int64_t x_head_stride, const TiledWeight& weight,
                      const Tensor& out, std::int64_t out_head_stride, const ProductChoice& choice,
                      cudaStream_t stream) {
  if (x.rows == 0 || weight.out == 0 || weight.count == 0) return;
  const TiledWeight w = as_one(weight, x_head_stride, out_head_stride);
  const Product product{.weight = w,
                        .x = x.data,
                        .x_stride = x.stride,
                        .x_matrix_stride = x_head_stride,
                        .y = out.data,
                        .y_stride = out.stride,
                        .y_matrix_stride = out_head_stride,
                        .x_dtype = x.dtype,
                        .y_dtype = out.dtype,
                        .rows = static_cast<std::int32_t>(x.rows)};
  if (!can_tile(product)) return launch_product_any(product, stream);
  launch_tiled(product, choice, stream);
}

bool run_gated_linear(const Tensor& x, const TiledWeight& weight, const Tensor& out,
                      const ProductChoice& choice, cudaStream_t stream) {
  const Product product{.weight = weight,
                        .x = x.data,
                        .x_stride = x.stride,
                        .y = out.data,
                        .y_stride = out.stride,
                        .x_dtype = x.dtype,
                        .y_dtype = out.dtype,
                        .rows = static_cast<std::int32_t>(x.rows),
                        .gated = true};
  if (x.rows == 0) return true;
  if (!can_tile(product)) return false;
  launch_tiled(product, choice, stream);
  return true;
}

}  // namespace tessera::cuda

// Products of activations with weights: picks the form for a shape.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/growing_scratch.h"
#include "backend/cuda/product.h"
#include "backend/cuda/product_many_sm90.h"
#include "tensor/tensor.h"

namespace tessera::cuda {

struct ProductChoice {
  int multiprocessors = 1;
  bool batch_invariant = false;        // only sums in one order whatever the number of rows
  const ManyDevice* hopper = nullptr;  // compute capability 9.0: its many-row form is used
  // For x in the order of wgmma, of formats that need it; null: they do without wgmma.
  GrowingScratch* order = nullptr;
};

// out[t, h] = W[h] x[t, h]; strides between heads in elements. One matrix: a plain product.
void run_linear_heads(const Tensor& x, std::int64_t x_head_stride, const TiledWeight& weight,
                      const Tensor& out, std::int64_t out_head_stride, const ProductChoice& choice,
                      cudaStream_t stream);

// out = silu(gate x) * (up x) for weight = [gate; up]. False, and nothing done, where the shape has no such
// form.
bool run_gated_linear(const Tensor& x, const TiledWeight& weight, const Tensor& out,
                      const ProductChoice& choice, cudaStream_t stream);

}  // namespace tessera::cuda

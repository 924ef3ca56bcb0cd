// Operations on whole rows: embedding, norms, sums, the gated activation, copies, rotary positions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda_layout/weight_layout.h"

namespace tessera::cuda {

void launch_embed(const std::int32_t* ids, const TiledWeight& table, std::int64_t first, const Tensor& out,
                  cudaStream_t stream);
// delta may have null data: then residual is x and is not written.
void launch_rms_norm(const Tensor& residual, const Tensor& delta, const float* weight, float eps,
                     const Tensor& out, cudaStream_t stream);
void launch_add(const Tensor& x, const Tensor& y, const Tensor& out, cudaStream_t stream);
void launch_silu_mul(const Tensor& gate_up, const Tensor& out, cudaStream_t stream);
// rows null: row i comes from row i.
void launch_copy_rows(const Tensor& x, const std::int32_t* rows, const Tensor& out, cudaStream_t stream);
void launch_rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride, const std::int32_t* positions,
                 const RopeTable& table, RopePairs pairs, cudaStream_t stream);

}  // namespace tessera::cuda

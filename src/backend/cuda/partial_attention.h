// Attention over parts of a sequence's rows, put together by log-sum-exp; and whole blocks of the cache
// copied.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/backend.h"

namespace tessera::cuda {

// As Backend::merge_partials and Backend::weigh_partial.
void launch_merge_partials(const Parts& outs, const Parts& lses, std::int64_t heads, const Tensor& out,
                           const Tensor& lse, cudaStream_t stream);
void launch_weigh_partial(const Parts& lses, std::int64_t own, std::int64_t heads, const Tensor& x,
                          cudaStream_t stream);
void launch_copy_blocks(const KvLayer& kv, const std::int32_t* blocks, std::int64_t count, void* out,
                        cudaStream_t stream);

}  // namespace tessera::cuda

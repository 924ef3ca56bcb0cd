// The best logit of each row, and the best of those of several ranks: greedy decoding without a copy of the
// logits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/backend.h"

namespace tessera::cuda {

// best[r] of f32 logits as Backend::argmax_shard says. scratch: kArgmaxScratchBytes, zero before its first
// use.
void launch_argmax(const Tensor& logits, std::int32_t first_token, BestLogit* best, void* scratch,
                   cudaStream_t stream);
void launch_merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                         const std::int32_t* id_map, std::int32_t* tokens, cudaStream_t stream);

}  // namespace tessera::cuda

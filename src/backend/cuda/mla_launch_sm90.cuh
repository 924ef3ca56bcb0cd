// Host side of the bf16 kernel: tensor maps and the launch itself.
#pragma once

#include "backend/cuda/mla_kernel_sm90.cuh"
#include "backend/cuda/mla_tensor_map.h"

namespace tessera::cuda::sm90 {

template <bool kLate>
void launch(const MlaDecodeLayout& layout, const MlaArgs& args, std::int32_t blocks, cudaStream_t stream) {
  const auto kernel = decode_kernel<kLate>;
  TS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::kSharedBytes));
  const std::int64_t q_rows = std::int64_t{args.seqs} * args.q_tokens * args.heads;
  const CUtensorMap q_map =
      map_rows({.data = args.q, .row_bytes = 2 * kMlaDim, .rows = q_rows, .chunks = Config::kChunks});
  const CUtensorMap kv_map = map_rows({.data = args.kv,
                                       .row_bytes = 2 * kMlaDim,
                                       .rows = kMlaBlockSize,
                                       .outer = blocks,
                                       .chunks = Config::kChunks});
  const dim3 grid(static_cast<unsigned>(layout.row_tiles), static_cast<unsigned>(layout.parts));
  launch_early(kernel, {grid, Config::kThreads, Config::kSharedBytes}, stream, args, q_map, kv_map);
}

}  // namespace tessera::cuda::sm90

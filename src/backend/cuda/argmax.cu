#include <algorithm>

#include "backend/cuda/activation.cuh"
#include "backend/cuda/argmax.h"
#include "backend/cuda/device.h"
#include "backend/cuda/overlap.cuh"
#include "backend/cuda_layout/sampler_layout.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ __forceinline__ BestLogit better_of_warp(BestLogit mine) {
  for (int step = 16; step > 0; step /= 2) {
    mine = better(mine, {__shfl_xor_sync(0xffffffffU, mine.value, step),
                         __shfl_xor_sync(0xffffffffU, mine.token, step)});
  }
  return mine;
}

// Known to thread 0.
__device__ BestLogit better_of_block(BestLogit mine) {
  __shared__ BestLogit of_warp[kWarps];
  mine = better_of_warp(mine);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  for (int w = 1; w < kWarps; ++w) mine = better(mine, of_warp[w]);
  return mine;
}

// Block (piece, row) finds the best of a piece; whoever is the last of a row finds the best of its pieces.
__global__ void __launch_bounds__(kThreads)
    argmax_kernel(Rows<const float> rows, std::int32_t cols, std::int32_t first_token, BestLogit* best,
                  BestLogit* pieces, unsigned* arrived) {
  __shared__ bool is_last;
  wait_for_previous();
  const std::int64_t r = blockIdx.y;
  const float* row = rows.row(r);
  const std::int32_t step = (cols + kArgmaxPieces - 1) / kArgmaxPieces;
  const std::int32_t begin = static_cast<std::int32_t>(blockIdx.x) * step;
  const std::int32_t end = min(cols, begin + step);
  BestLogit mine{-INFINITY, -1};
#pragma unroll 4
  for (std::int32_t i = begin + static_cast<std::int32_t>(threadIdx.x); i < end; i += kThreads) {
    const float value = row[i];
    if (isnan(value)) {
      mine = {NAN, -1};
    } else if (value > mine.value) {  // never where a NaN was seen; -inf is no choice
      mine = {value, first_token + i};
    }
  }
  mine = better_of_block(mine);
  if (threadIdx.x == 0) {
    pieces[r * kArgmaxPieces + blockIdx.x] = mine;
    __threadfence();
    is_last = atomicAdd(&arrived[r], 1U) == kArgmaxPieces - 1;
  }
  __syncthreads();
  if (!is_last || threadIdx.x >= 32) return;
  __threadfence();
  BestLogit piece{-INFINITY, -1};
  if (threadIdx.x < kArgmaxPieces) {
    const volatile BestLogit* at = &pieces[r * kArgmaxPieces + threadIdx.x];
    piece = {at->value, at->token};
  }
  piece = better_of_warp(piece);
  if (threadIdx.x == 0) {
    best[r] = piece;
    arrived[r] = 0;
  }
}

__global__ void merge_argmax_kernel(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                                    const std::int32_t* id_map, std::int32_t* tokens) {
  wait_for_previous();
  const std::int64_t r = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (r >= rows) return;
  BestLogit best{-INFINITY, -1};
  for (std::int64_t rank = 0; rank < ranks; ++rank) best = better(best, shards[rank * rows + r]);
  tokens[r] = id_map != nullptr && best.token >= 0 ? id_map[best.token] : best.token;
}

}  // namespace

void launch_argmax(const Tensor& logits, std::int32_t first_token, BestLogit* best, void* scratch,
                   cudaStream_t stream) {
  auto* pieces = static_cast<BestLogit*>(scratch);
  auto* arrived = reinterpret_cast<unsigned*>(pieces + kArgmaxRows * kArgmaxPieces);
  for (std::int64_t first = 0; first < logits.rows; first += kArgmaxRows) {
    const Tensor wave = logits.row_range(first, std::min(kArgmaxRows, logits.rows - first));
    launch_early(argmax_kernel, {dim3(kArgmaxPieces, static_cast<unsigned>(wave.rows)), kThreads}, stream,
                 rows_of<const float>(wave), static_cast<std::int32_t>(wave.cols), first_token, best + first,
                 pieces, arrived);
  }
}

void launch_merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                         const std::int32_t* id_map, std::int32_t* tokens, cudaStream_t stream) {
  launch_early(merge_argmax_kernel, {grid_of(rows, kThreads), kThreads}, stream, shards, ranks, rows, id_map,
               tokens);
}

}  // namespace tessera::cuda

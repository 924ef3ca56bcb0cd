// Attention of one query row by one warp: scores in f32, values weighted as they come, lanes over dimensions.
#pragma once

#include "backend/cuda/activation.cuh"

namespace tessera::cuda {

// Lane l holds dimensions l, l + 32, ...
template <int kPer>
struct RunningRow {
  float top = -INFINITY;  // largest score so far
  float sum = 0;          // of exp(score - top)
  float acc[kPer] = {};   // sum of exp(score - top) x value

  __device__ void move_top(float to) {
    const float keep = top == -INFINITY ? 0.0F : expf(top - to);
    sum *= keep;
#pragma unroll
    for (int j = 0; j < kPer; ++j) acc[j] *= keep;
    top = to;
  }
  // value(d) for d < dim. A score of NaN makes everything NaN.
  template <class Value>
  __device__ void add(float score, int lane, int dim, const Value& value) {
    if (!(score <= top)) move_top(score);
    const float weight = expf(score - top);
    sum += weight;
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int d = lane + 32 * j;
      if (d < dim) acc[j] += weight * value(d);
    }
  }
  __device__ void merge(float other_top, float other_sum, const float* other_acc, int lane, int dim) {
    if (other_sum == 0.0F) return;
    if (!(other_top <= top)) move_top(other_top);
    const float weight = expf(other_top - top);
    sum += weight * other_sum;
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int d = lane + 32 * j;
      if (d < dim) acc[j] += weight * other_acc[d];
    }
  }
};

// The rows of a block's warps, merged in order by warp 0. shared [warps][2 + dim].
template <int kPer>
__device__ void merge_warps(RunningRow<kPer>& row, int dim, float* shared) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* mine = shared + warp * (2 + dim);
  if (lane == 0) {
    mine[0] = row.top;
    mine[1] = row.sum;
  }
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    if (lane + 32 * j < dim) mine[2 + lane + 32 * j] = row.acc[j];
  }
  __syncthreads();
  if (warp != 0) return;
  for (int w = 1; w < warps; ++w) {
    const float* other = shared + w * (2 + dim);
    row.merge(other[0], other[1], other + 2, lane, dim);
  }
}

}  // namespace tessera::cuda

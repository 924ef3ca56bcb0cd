#include <algorithm>

#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/experts.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr float kNone = -INFINITY;
constexpr int kMostGroups = 64;

// One warp a token; lane l looks after experts l, l + 32, ... Every choice is the largest, the lowest of
// equals.
struct Best {
  float value;
  int index;
};
__device__ Best better(Best a, Best b) {
  return b.index >= 0 && (a.index < 0 || b.value > a.value || (b.value == a.value && b.index < a.index)) ? b
                                                                                                         : a;
}
__device__ Best best_of_warp(Best mine) {
  for (int step = 16; step > 0; step /= 2) {
    const Best other{__shfl_xor_sync(0xffffffffU, mine.value, step),
                     __shfl_xor_sync(0xffffffffU, mine.index, step)};
    mine = better(mine, other);
  }
  return mine;
}

__global__ void route_kernel(Rows<const float> logits, const float* bias, RoutingRule rule, int experts,
                             Rows<std::int32_t> ids, Rows<float> weights) {
  extern __shared__ float choice[];  // [experts]; NaN stands for taken
  __shared__ float group_score[kMostGroups];
  __shared__ bool group_kept[kMostGroups];
  const std::int64_t token = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x);
  const float* logit = logits.row(token);
  for (int e = lane; e < experts; e += 32) {
    const float c = 1.0F / (1.0F + expf(-logit[e])) + bias[e];
    choice[e] = isnan(c) ? kNone : c;
  }
  __syncwarp();
  const int group_size = experts / rule.groups;
  if (rule.top_groups < rule.groups) {
    for (int g = lane; g < rule.groups; g += 32) {
      float first = kNone;
      float second = kNone;
      for (int i = 0; i < group_size; ++i) {
        const float value = choice[g * group_size + i];
        if (value > first) {
          second = first;
          first = value;
        } else if (value > second) {
          second = value;
        }
      }
      group_score[g] = group_size == 1 ? first : first + second;
      group_kept[g] = false;
    }
    __syncwarp();
    for (int i = 0; i < rule.top_groups; ++i) {
      Best best{kNone, -1};
      for (int g = lane; g < rule.groups; g += 32) {
        if (!group_kept[g]) best = better(best, {group_score[g], g});
      }
      best = best_of_warp(best);
      __syncwarp();
      if (lane == 0 && best.index >= 0) group_kept[best.index] = true;
      __syncwarp();
    }
    for (int e = lane; e < experts; e += 32) {
      if (!group_kept[e / group_size]) choice[e] = NAN;
    }
    __syncwarp();
  }
  float sum = 0;
  for (int k = 0; k < rule.top_k; ++k) {
    Best best{kNone, -1};
    for (int e = lane; e < experts; e += 32) {
      if (!isnan(choice[e])) best = better(best, {choice[e], e});
    }
    best = best_of_warp(best);
    const int e = best.index < 0 ? 0 : best.index;
    __syncwarp();
    if (lane == 0) {
      const float score = 1.0F / (1.0F + expf(-logit[e]));
      choice[e] = NAN;
      ids.row(token)[k] = e;
      weights.row(token)[k] = score;
      sum += score;
    }
    __syncwarp();
  }
  if (lane != 0) return;
  for (int k = 0; k < rule.top_k; ++k) {
    float& weight = weights.row(token)[k];
    weight = (rule.normalise ? weight / (sum + 1e-20F) : weight) * rule.scaling;
  }
}

}  // namespace

void launch_route_experts(const Tensor& logits, const float* bias, const RoutingRule& rule, const Tensor& ids,
                          const Tensor& weights, cudaStream_t stream) {
  if (logits.rows == 0) return;
  TS_CHECK(logits.cols <= kMostExperts && rule.groups > 0 && rule.groups <= kMostGroups &&
               logits.cols % rule.groups == 0 && rule.top_k <= logits.cols,
           logits.cols, kMostExperts, rule.groups, kMostGroups, rule.top_k);
  route_kernel<<<static_cast<unsigned>(logits.rows), 32, static_cast<std::size_t>(logits.cols) * 4, stream>>>(
      rows_of<const float>(logits), bias, rule, static_cast<int>(logits.cols), rows_of<std::int32_t>(ids),
      rows_of<float>(weights));
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda

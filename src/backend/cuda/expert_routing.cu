#include <algorithm>

#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/experts.h"
#include "backend/cuda/overlap.cuh"
#include "backend/cuda/sample_row.cuh"
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

__device__ void keep_best_groups(const float* choice, const RoutingRule& rule, int group_size,
                                 float* group_score, bool* group_kept) {
  const int lane = static_cast<int>(threadIdx.x);
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
}

// kPer: experts a lane holds in registers.
template <int kPer>
__global__ void route_kernel(Rows<const float> logits, const float* bias, RoutingRule rule, int experts,
                             Rows<std::int32_t> ids, Rows<float> weights) {
  extern __shared__ float choices[];  // [experts], only where groups are chosen
  __shared__ float group_score[kMostGroups];
  __shared__ bool group_kept[kMostGroups];
  const std::int64_t token = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x);
  const float* logit = logits.row(token);
  float score[kPer];
  std::uint32_t order[kPer];  // of the choice; 0: none, or taken
  wait_for_previous();
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int e = lane + 32 * j;
    score[j] = e < experts ? logit[e] : 0.0F;
    order[j] = __float_as_uint(e < experts ? bias[e] : 0.0F);
  }
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int e = lane + 32 * j;
    score[j] = 1.0F / (1.0F + expf(-score[j]));
    const float sum = score[j] + __uint_as_float(order[j]);
    const float choice = isnan(sum) ? kNone : sum;
    order[j] = e < experts ? order_of(choice) : 0;
    if (rule.top_groups < rule.groups && e < experts) choices[e] = choice;
  }
  if (rule.top_groups < rule.groups) {
    __syncwarp();
    const int group_size = experts / rule.groups;
    keep_best_groups(choices, rule, group_size, group_score, group_kept);
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int e = lane + 32 * j;
      if (e < experts && !group_kept[e / group_size]) order[j] = 0;
    }
  }
  float sum = 0;
  float mine = 0;  // lane k keeps the k-th choice; more than 32 go through memory
  for (int k = 0; k < rule.top_k; ++k) {
    std::uint32_t best = 0;
    int at = 0;
    float best_score = 0;
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      if (order[j] > best) {
        best = order[j];
        at = j;
        best_score = score[j];
      }
    }
    const std::uint32_t top = __reduce_max_sync(0xffffffffU, best);
    const unsigned e =
        __reduce_min_sync(0xffffffffU, best == top ? static_cast<unsigned>(lane + 32 * at) : 0xffffffffU);
    const float chosen = __shfl_sync(0xffffffffU, best_score, static_cast<int>(e % 32));
    if (static_cast<int>(e % 32) == lane) {
#pragma unroll
      for (int j = 0; j < kPer; ++j) {
        if (j == at) order[j] = 0;
      }
    }
    sum += chosen;
    if (lane == k % 32) {
      ids.row(token)[k] = static_cast<std::int32_t>(e);
      weights.row(token)[k] = chosen;
      mine = chosen;
    }
  }
  for (int k = lane; k < rule.top_k; k += 32) {
    const float weight = rule.top_k <= 32 ? mine : weights.row(token)[k];
    weights.row(token)[k] = (rule.normalise ? weight / (sum + 1e-20F) : weight) * rule.scaling;
  }
}

}  // namespace

void launch_route_experts(const Tensor& logits, const float* bias, const RoutingRule& rule, const Tensor& ids,
                          const Tensor& weights, cudaStream_t stream) {
  if (logits.rows == 0) return;
  TS_CHECK(logits.cols <= kMostExperts && rule.groups > 0 && rule.groups <= kMostGroups &&
               logits.cols % rule.groups == 0 && rule.top_k <= logits.cols,
           logits.cols, kMostExperts, rule.groups, kMostGroups, rule.top_k);
  const auto run = [&](auto kernel) {
    const std::size_t shared = rule.top_groups < rule.groups ? static_cast<std::size_t>(logits.cols) * 4 : 0;
    launch_early(kernel, {static_cast<unsigned>(logits.rows), 32, shared}, stream,
                 rows_of<const float>(logits), bias, rule, static_cast<int>(logits.cols),
                 rows_of<std::int32_t>(ids), rows_of<float>(weights));
  };
  if (logits.cols <= 128) {
    run(route_kernel<4>);
  } else if (logits.cols <= 384) {
    run(route_kernel<12>);
  } else {
    run(route_kernel<32>);
  }
}

}  // namespace tessera::cuda

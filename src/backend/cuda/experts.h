// Mixture of experts: choosing them, sorting tokens by expert, running them, adding up.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/product.h"
#include "backend/cuda/product_many_sm90.h"

namespace tessera::cuda {

inline constexpr std::int64_t kMostExperts = 1024;

// ids i32 and weights f32 [tokens, top_k].
void launch_route_experts(const Tensor& logits, const float* bias, const RoutingRule& rule, const Tensor& ids,
                          const Tensor& weights, cudaStream_t stream);

// expert_layout() over memory that the caller owns.
struct ExpertScratch {
  ExpertScratch(void* memory, std::size_t bytes, const ExpertLimits& limits, DType dtype);

  std::int32_t* pair_row = nullptr;    // [pairs] token of each sorted pair
  std::int32_t* pair_place = nullptr;  // [tokens, top_k] where a pair was sorted to; -1: not on this rank
  ProductItem* items = nullptr;        // [item limit]
  std::int32_t* item_count = nullptr;  // [1]
  std::int32_t* pair_count = nullptr;  // [1] on this rank
  float* pair_scale = nullptr;         // [pairs] what rows of x were divided by
  void* gate_up = nullptr;  // [pairs, 2 * width], of shapes that cannot be fused; or hidden in another order
  void* hidden = nullptr;   // [pairs, width]
  void* parts = nullptr;    // [pairs, hidden]
};

struct ExpertCall {
  Tensor x, ids, weights;
  std::int64_t first_expert = 0;
  TiledWeight gate_up, down;
  Tensor out;
};
struct ExpertOptions {
  bool batch_invariant = false;        // always the form whose sums do not depend on the number of tokens
  const ManyDevice* hopper = nullptr;  // compute capability 9.0: its many-row form is used
};
void run_experts(const ExpertCall& call, void* scratch, std::size_t scratch_bytes,
                 const ExpertOptions& options, cudaStream_t stream);

}  // namespace tessera::cuda

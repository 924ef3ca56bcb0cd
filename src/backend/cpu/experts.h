// The mixture of experts: tokens are sorted by expert, so that each expert that any token chose is read once.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/thread_pool.h"

namespace tessera {

struct ExpertScratch {
  Scratch order;   // which tokens go to which expert
  Scratch hidden;  // gate and up of every (token, choice)
  std::vector<Scratch> threads;
};

// pairs: tokens x top_k; gate_up: twice the width of an expert.
void reserve_experts(ExpertScratch& scratch, int threads, std::int64_t pairs, std::int64_t experts,
                     std::int64_t gate_up);

// As Backend::moe. A token's experts are added in the order of their ids.
void run_experts(ThreadPool& pool, ExpertScratch& scratch, const Tensor& x, const Tensor& ids,
                 const Tensor& weights, std::int64_t first_expert, const WeightStack& gate_up,
                 const WeightStack& down, const Tensor& out);

}  // namespace tessera

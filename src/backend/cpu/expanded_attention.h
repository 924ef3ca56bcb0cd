// MLA in its expanded form, for many query tokens: each head's keys and values are made from the cached
// latents, one tile of 64 rows at a time, and used by all queries of the sequence before the next tile is
// made.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/backend.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/thread_pool.h"

namespace tessera {

struct ExpandedShape {
  std::int64_t heads = 0;
  std::int64_t nope = 0;
  std::int64_t rope = 0;
  std::int64_t latent = 0;
  std::int64_t value = 0;
};

struct ExpandedScratch {
  std::vector<Scratch> threads;
};

void reserve_expanded(ExpandedScratch& scratch, int threads, std::int64_t tokens, const ExpandedShape& shape);

// lse.data may be null.
void expanded_attention(ThreadPool& pool, ExpandedScratch& scratch, const ExpandedShape& shape, float scale,
                        const Tensor& q, const AttentionBatch& batch, const KvLayer& kv,
                        const WeightStack& k_up, const WeightStack& v_up, const Tensor& out,
                        const Tensor& lse);

}  // namespace tessera

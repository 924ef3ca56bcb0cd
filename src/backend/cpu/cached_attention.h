// Attention straight over the rows of the cache: MLA in its absorbed form (one key of latent + rope values
// for all heads, whose first `latent` values are also the value) and GQA.
//
// Rows are read in tiles of 64 from row 0 on. A token's rows are cut into at most 16 chunks whose size
// follows from its own count of visible rows; each chunk is a softmax of its own, and chunks are joined in
// order. So the result of a token is the same whether one thread walks all its chunks or sixteen threads take
// one each.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/cpu/scratch.h"
#include "backend/cpu/thread_pool.h"
#include "tensor/kv_format.h"
#include "tensor/tensor.h"

namespace tessera {

inline constexpr std::int64_t kTileRows = 64;    // scores of 64 x 32 columns stay in the L1 cache
inline constexpr std::int64_t kMostChunks = 16;  // bounds the partial results of one long sequence

// Rows of one chunk: 256 (small enough to share a short sequence between threads), doubled until 16 are
// enough.
constexpr std::int64_t chunk_rows(std::int64_t visible) {
  std::int64_t rows = 256;
  while (rows * kMostChunks < visible) rows *= 2;
  return rows;
}

// What the two callers differ in.
struct CachedHeads {
  std::int64_t heads = 0;     // query heads
  std::int64_t kv_heads = 0;  // 1 for MLA
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  bool value_in_key = false;  // MLA: values are the first value_dim of the key
  float scale = 1;
};

struct CachedScratch {
  std::vector<Scratch> threads;  // one a thread
  Scratch items;                 // which tokens form an item
  Scratch partials;              // chunks of items that several threads share
};

// Makes `scratch` large enough for every call of up to `tokens` tokens.
void reserve_cached(CachedScratch& scratch, int threads, std::int64_t tokens, const CachedHeads& heads);

// lse.data may be null.
void cached_attention(ThreadPool& pool, CachedScratch& scratch, const CachedHeads& heads, const Tensor& q,
                      const AttentionBatch& batch, const KvLayer& kv, const Tensor& out, const Tensor& lse);

}  // namespace tessera

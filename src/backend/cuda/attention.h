// Writing keys and values, and attention in its plain form: any format, any head width, f32 activations too.
// The fast forms are mla_decode.h (absorbed) and mla_prefill.h (expanded).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/attention_batch.h"
#include "backend/backend.h"
#include "tensor/kv_format.h"
#include "tensor/tensor.h"

namespace tessera::cuda {

// first [tokens, width of the row's first part], second [tokens, the rest]: latent and rotated key, or keys
// and values.
void launch_write_kv(const Tensor& first, const Tensor& second, const AttentionBatch& batch,
                     const KvLayer& kv, cudaStream_t stream);

// Backend::store_mla.
void launch_store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps, const RopeTable& table,
                      const AttentionBatch& batch, const KvLayer& kv, cudaStream_t stream);

struct CachedHeads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 1;
  std::int32_t key_dim = 0;
  std::int32_t value_dim = 0;
  std::int32_t value_first = 0;  // of kv head 0's value, inside a row; MLA: 0, the latent is key and value
  float scale = 1.0F;
};
// One block a (token, head). lse may have null data.
void launch_cached_attention(const CachedHeads& shape, const Tensor& q, const AttentionBatch& batch,
                             const KvLayer& kv, const Tensor& out, const Tensor& lse, cudaStream_t stream);

// block_table of the batch, one row a token: what turns a ragged batch into one of single query tokens.
void launch_token_tables(const AttentionBatch& batch, std::int32_t block_size, std::int32_t first_token,
                         std::int32_t tokens, std::int32_t* tables, cudaStream_t stream);

}  // namespace tessera::cuda

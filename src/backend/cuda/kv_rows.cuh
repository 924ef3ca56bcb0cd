// Values of cached rows, read one by one. The wide readers of the decode kernels have their own.
#pragma once

#include "backend/attention_batch.h"
#include "backend/cuda/activation.cuh"
#include "tensor/kv_format.h"

namespace tessera::cuda {

// Row `slot` of a pool.
__device__ __forceinline__ const unsigned char* kv_row(const KvLayer& kv, std::int64_t slot) {
  return static_cast<const unsigned char*>(kv.data) + slot * kv.row_bytes;
}

// Slot of row `row` of sequence `seq`.
__device__ __forceinline__ std::int64_t kv_slot(const KvLayer& kv, const AttentionBatch& batch,
                                                std::int32_t seq, std::int64_t row) {
  const std::int64_t block = batch.block_table[std::int64_t{seq} * batch.max_blocks + row / kv.block_size];
  return block * kv.block_size + row % kv.block_size;
}

// The sequence that query token `token` belongs to.
__device__ __forceinline__ std::int32_t sequence_of(const AttentionBatch& batch, std::int32_t token) {
  std::int32_t low = 0;
  std::int32_t high = batch.seqs - 1;
  while (low < high) {
    const std::int32_t middle = (low + high + 1) / 2;
    if (batch.query_start[middle] <= token) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

template <KvFormat F>
__device__ __forceinline__ float kv_value(const KvLayer& kv, const unsigned char* row, std::int32_t i) {
  if constexpr (F == KvFormat::kF32) return reinterpret_cast<const float*>(row)[i];
  if constexpr (F == KvFormat::kBF16) return widen(reinterpret_cast<const bf16*>(row)[i]);
  if constexpr (F == KvFormat::kFp8) return widen_fp8(row[i]) * kv.scale;
  if constexpr (F == KvFormat::kFp8Grouped) {
    const std::int32_t latent = kv.shape.latent;
    if (i < latent) return widen_fp8(row[i]) * reinterpret_cast<const float*>(row + latent)[i / 128];
    return widen(reinterpret_cast<const bf16*>(row + latent + latent / 128 * 4)[i - latent]);
  }
  return 0;
}

template <class F>
void with_kv_format(KvFormat format, const F& body) {
  switch (format) {
    case KvFormat::kF32:
      return body.template operator()<KvFormat::kF32>();
    case KvFormat::kBF16:
      return body.template operator()<KvFormat::kBF16>();
    case KvFormat::kFp8:
      return body.template operator()<KvFormat::kFp8>();
    case KvFormat::kFp8Grouped:
      return body.template operator()<KvFormat::kFp8Grouped>();
  }
}

}  // namespace tessera::cuda

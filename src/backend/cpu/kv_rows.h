// Writing and reading the rows of the KV cache in every format. Prefill and decode write through the same
// function, so their rows are the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/attention_batch.h"
#include "tensor/kv_format.h"

namespace tessera {

// `values` f32 into row `slot` of the pool, from value `first` of the row on.
//   f32, bf16     as they are, rounded to nearest even
//   fp8           e4m3 of x / kv.scale, saturating at +-448
// fp8_ds_mla rows are written whole by write_grouped_row: a group of 128 needs all its values for its scale.
void write_row_values(const KvLayer& kv, std::int64_t slot, std::int64_t first, std::int64_t count,
                      const float* values);
void write_grouped_row(const KvLayer& kv, std::int64_t slot, const float* latent, const float* rope_key);

// Values [first, first + count) of a row as f32. For fp8_ds_mla `first` is a multiple of 128 or the row's
// latent size.
void read_row_values(const KvLayer& kv, const std::byte* row, std::int64_t first, std::int64_t count,
                     float* dst);

// Row `row` of sequence `seq`, found through the block table.
inline const std::byte* kv_row(const KvLayer& kv, const AttentionBatch& batch, std::int64_t seq,
                               std::int64_t row) {
  const std::int64_t block = batch.block_table[seq * batch.max_blocks + row / kv.block_size];
  return static_cast<const std::byte*>(kv.data) +
         (block * kv.block_size + row % kv.block_size) * kv.row_bytes;
}

}  // namespace tessera

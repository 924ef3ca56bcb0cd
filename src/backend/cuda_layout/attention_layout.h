// Scratch of attention besides the outputs: what the back-end takes for the largest step that is allowed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda_layout/device_traits.h"

namespace tessera::cuda {

struct PrefillShape {
  std::int64_t heads = 0;
  std::int32_t nope = 0;
  std::int32_t rope = 0;
  std::int32_t latent = 0;
  std::int32_t value = 0;
};
// Of one row that is expanded: its latent, and keys and values of every head.
std::size_t chunk_row_bytes(const PrefillShape& shape, DType dtype);

// Rows of a sequence that are expanded at a time: enough for large products, and 134 MB of keys and values
// with the 64 heads of Kimi.
inline constexpr std::int64_t kChunkRows = 4096;
// In batch-invariant mode a sequence is split every so many tiles of 64 rows, whatever the batch.
inline constexpr std::int32_t kFixedSplitTiles = 32;
// Most memory for partial results of split sequences; longer batches run in several launches.
inline constexpr std::size_t kWorkspaceLimit = std::size_t{512} << 20;
// Tokens of a ragged batch that get a block table of their own at a time.
inline constexpr std::int64_t kTokensATable = 1024;

struct AttentionScratch {        // bytes
  std::size_t lse = 0;           // log-sum-exps that the caller does not want
  std::size_t prefill_plan = 0;  // PrefillPlan
  std::size_t chunk = 0;         // expanded latents, keys and values
  std::size_t tables = 0;        // block tables, one row a token
  std::size_t workspace = 0;     // partial results of split sequences

  std::size_t sum() const { return lse + prefill_plan + chunk + tables + workspace; }
};
AttentionScratch attention_scratch(const Backend::Limits& limits, DType dtype, const DeviceTraits& device,
                                   bool batch_invariant);

}  // namespace tessera::cuda

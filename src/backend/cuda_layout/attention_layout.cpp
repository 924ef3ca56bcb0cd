#include "backend/cuda_layout/attention_layout.h"

#include <algorithm>

#include "backend/cuda_layout/mla_layout.h"
#include "backend/cuda_layout/prefill_plan.h"
#include "base/check.h"

namespace tessera::cuda {

std::size_t chunk_row_bytes(const PrefillShape& s, DType dtype) {
  return static_cast<std::size_t>((s.latent + s.rope + s.heads * (s.nope + s.value)) * bytes_of(dtype));
}

AttentionScratch attention_scratch(const Backend::Limits& limits, DType dtype, const DeviceTraits& device,
                                   bool batch_invariant) {
  AttentionScratch scratch;
  scratch.lse = static_cast<std::size_t>(limits.tokens * limits.heads) * 4;
  const bool is_mla = limits.value_dim > 0;
  if (!is_mla) return scratch;
  const PrefillShape shape{.heads = limits.heads,
                           .nope = static_cast<std::int32_t>(limits.key_dim),
                           .rope = 0,  // counted in key_dim
                           .latent = static_cast<std::int32_t>(limits.head_dim),
                           .value = static_cast<std::int32_t>(limits.value_dim)};
  const auto seqs = static_cast<std::size_t>(std::min(limits.seqs, limits.tokens));
  const auto tiles = static_cast<std::size_t>(limits.tokens) / kTileTokens + seqs;
  const auto cuts = static_cast<std::size_t>(limits.kv_tokens / kChunkRows + 1);  // pieces of a sequence
  scratch.prefill_plan = prefill_plan_bytes(seqs * cuts, tiles * cuts, seqs * cuts);
  scratch.chunk = static_cast<std::size_t>(kChunkRows) * chunk_row_bytes(shape, dtype);
  const std::int64_t blocks = (limits.kv_tokens + kMlaBlockSize - 1) / kMlaBlockSize;
  scratch.tables = static_cast<std::size_t>(std::min(limits.tokens, kTokensATable) * blocks) * 4;
  if (dtype != DType::kBF16 || limits.heads > kMlaMaxHeads) return scratch;
  for (std::int32_t q_tokens = 1; q_tokens <= kMlaMaxQueryTokens; ++q_tokens) {
    const MlaDecodeShape most{.kv = KvFormat::kBF16,
                              .seqs = static_cast<std::int32_t>(
                                  std::clamp<std::int64_t>(limits.tokens / q_tokens, 1, kTokensATable)),
                              .q_tokens = q_tokens,
                              .heads = static_cast<std::int32_t>(limits.heads),
                              .max_blocks = static_cast<std::int32_t>(blocks),
                              .fixed_split_tiles = batch_invariant ? kFixedSplitTiles : 0};
    const auto layout = mla_decode_layout(most, device);
    TS_CHECK(layout.ok(), layout.error().message());
    scratch.workspace = std::max(scratch.workspace, layout->workspace_bytes);
  }
  scratch.workspace = std::min(scratch.workspace, kWorkspaceLimit);
  return scratch;
}

}  // namespace tessera::cuda

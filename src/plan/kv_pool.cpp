#include "plan/kv_pool.h"

#include <algorithm>
#include <limits>

namespace tessera {

Result<KvFormat> parse_kv_format(const std::string& name, KvFormat automatic) {
  if (name == "auto") return automatic;
  if (name == "f32" || name == "float32") return KvFormat::kF32;
  if (name == "bf16" || name == "bfloat16") return KvFormat::kBF16;
  if (name == "fp8" || name == "fp8_e4m3") return KvFormat::kFp8;
  if (name == "fp8_ds_mla") return KvFormat::kFp8Grouped;
  return Error{ErrorKind::kInvalidArgument, "--kv-cache-dtype",
               "is '" + name + "', which is no row format; use auto, f32, bf16, fp8 or fp8_ds_mla."};
}

Result<KvPool> size_kv_pool(const KvPoolRequest& r) {
  const auto up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by; };
  std::int64_t blocks = 0;
  if (r.blocks) {
    blocks = *r.blocks;
  } else if (r.bytes) {
    blocks = *r.bytes / r.block_bytes;
    if (blocks < 1) {
      return Error{ErrorKind::kInvalidArgument, "--kv-cache-memory-bytes",
                   "is " + std::to_string(*r.bytes) + ", but one block of " + std::to_string(r.block_size) +
                       " tokens needs " + std::to_string(r.block_bytes) + " bytes."};
    }
  } else {
    const std::int64_t of_one = up(r.max_model_len, r.block_size);
    const std::int64_t useful = of_one * r.max_num_seqs;  // every sequence kept on every rank
    blocks = std::min(useful, std::max(r.default_bytes / r.block_bytes, up(of_one, r.context_ranks)));
  }
  if (blocks * r.context_ranks > std::numeric_limits<std::int32_t>::max()) {
    return Error{ErrorKind::kTooLarge, "KV cache",
                 std::to_string(blocks) + " blocks on each of " + std::to_string(r.context_ranks) +
                     " ranks are more than block tables can number; use a larger --block-size."};
  }
  return KvPool{.blocks = static_cast<std::int32_t>(blocks),
                .bytes = blocks * r.block_bytes,
                .tokens = blocks * r.block_size * r.context_ranks};
}

}  // namespace tessera

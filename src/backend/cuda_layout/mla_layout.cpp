#include "backend/cuda_layout/mla_layout.h"

#include <algorithm>
#include <string>

#include "backend/cuda_layout/mla_plan.h"

namespace tessera::cuda {
namespace {

constexpr int kSm90Rows = 64;   // of Q, the largest tile on Hopper
constexpr int kFewestRows = 8;  // its smallest
constexpr int kFewRows = 16;  // the portable form's smaller tile: two blocks then fit a large multiprocessor
constexpr int kPortableRows = 32;  // its larger tile, for the registers of one block
constexpr int kPortableShared =
    100 * 1024;                   // bytes a block of it needs at most, with what the driver reserves
constexpr int kMaxParts = 1024;   // the planner has one thread a part
constexpr int kMaxPieces = 1024;  // of one sequence; the merge keeps one weight a piece

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

Error refusal(ErrorKind kind, std::string what) { return {kind, "mla_decode", std::move(what)}; }

// bf16 rows of 9 to 16 query rows: the portable kernel's tile has 16, and the memory is its only bound. The
// Hopper kernel for bf16 has tiles of 64, or 8.
MlaKernel choose(const MlaDecodeShape& shape, const DeviceTraits& device) {
  if (device.capability != 90) return MlaKernel::kPortable;
  const std::int32_t rows = shape.q_tokens * shape.heads;
  if (shape.kv != KvFormat::kBF16 || rows <= kFewestRows) return MlaKernel::kSm90;
  return rows <= kFewRows ? MlaKernel::kPortable : MlaKernel::kSm90;
}

std::int32_t rows_of_tile(MlaKernel kernel, const MlaDecodeShape& shape) {
  const std::int32_t rows = shape.q_tokens * shape.heads;
  if (kernel == MlaKernel::kPortable) return rows <= kFewRows ? kFewRows : kPortableRows;
  if (shape.fp8_math) return kSm90Rows;
  if (rows <= kFewestRows) return kFewestRows;
  if (shape.kv == KvFormat::kBF16) return kSm90Rows;
  std::int32_t tile = kFewestRows;
  while (tile < rows && tile < kSm90Rows) tile *= 2;
  return tile;
}

}  // namespace

Result<MlaDecodeLayout> mla_decode_layout(const MlaDecodeShape& shape, const DeviceTraits& device) {
  const auto in_range = [](std::int32_t value, std::int32_t low, std::int32_t high) {
    return value >= low && value <= high;
  };
  if (!in_range(shape.seqs, 1, kMlaMaxSeqs)) {
    return refusal(ErrorKind::kTooLarge, std::to_string(shape.seqs) + " sequences; 1 to " +
                                             std::to_string(kMlaMaxSeqs) + " can be planned in one launch");
  }
  if (!in_range(shape.q_tokens, 1, kMlaMaxQueryTokens)) {
    return refusal(ErrorKind::kUnsupported,
                   std::to_string(shape.q_tokens) +
                       " query tokens a sequence; decode takes 1 to 8, longer runs are prefill");
  }
  if (!in_range(shape.heads, 1, kMlaMaxHeads)) {
    return refusal(ErrorKind::kUnsupported, std::to_string(shape.heads) + " heads; 1 to 128 are supported");
  }
  if (shape.kv == KvFormat::kF32) {
    return refusal(ErrorKind::kUnsupported, "rows of f32; the GPU keeps bf16, fp8 or fp8_ds_mla");
  }
  if (shape.max_blocks < 0 || shape.fixed_split_tiles < 0 || !in_range(shape.parts, 0, kMaxParts)) {
    return refusal(ErrorKind::kInvalidArgument,
                   "max_blocks " + std::to_string(shape.max_blocks) + ", fixed_split_tiles " +
                       std::to_string(shape.fixed_split_tiles) + ", parts " + std::to_string(shape.parts) +
                       "; none may be negative, parts at most 1024");
  }
  if (device.capability < 80) {
    return refusal(ErrorKind::kUnsupported, "compute capability " + std::to_string(device.capability / 10) +
                                                "." + std::to_string(device.capability % 10) +
                                                "; 8.0 or newer is needed");
  }

  MlaDecodeLayout layout{.shape = shape};
  layout.kernel = shape.kernel == MlaKernel::kAuto ? choose(shape, device) : shape.kernel;
  if (layout.kernel == MlaKernel::kSm90 && device.capability != 90) {
    return refusal(ErrorKind::kUnsupported, "the sm90 kernel needs compute capability 9.0");
  }
  const std::int32_t rows = shape.q_tokens * shape.heads;
  if (shape.fp8_math && (shape.kv != KvFormat::kFp8 || layout.kernel != MlaKernel::kSm90)) {
    return refusal(ErrorKind::kUnsupported, "fp8_math with " + std::string(name_of(shape.kv)) +
                                                " rows; it needs fp8 rows and the sm90 kernel");
  }
  layout.tile_rows = rows_of_tile(layout.kernel, shape);
  layout.row_tiles = (rows + layout.tile_rows - 1) / layout.tile_rows;
  const bool two_blocks = layout.kernel == MlaKernel::kPortable && layout.tile_rows == kFewRows &&
                          device.shared_bytes_a_multiprocessor >= 2 * kPortableShared;
  const std::int32_t blocks = device.multiprocessors * (two_blocks ? 2 : 1);
  layout.parts = shape.parts > 0 ? shape.parts : std::max(blocks / layout.row_tiles, 1);
  layout.parts = std::min(layout.parts, kMaxParts);
  layout.multiprocessors = device.multiprocessors;
  // Several row tiles read every KV tile from L2; with bf16 rows the tensor cores are then the bound.
  layout.late = layout.kernel == MlaKernel::kSm90 && layout.row_tiles > 1 && shape.kv == KvFormat::kBF16;
  layout.piece_overhead = 5;
  layout.split_cost = 8;
  layout.slots = kMlaSlotStep * layout.parts;
  if (shape.fixed_split_tiles > 0) {
    const std::int32_t pieces =
        std::max((shape.max_blocks + shape.fixed_split_tiles - 1) / shape.fixed_split_tiles, 1);
    if (pieces > kMaxPieces) {
      return refusal(ErrorKind::kTooLarge, std::to_string(pieces) + " pieces of " +
                                               std::to_string(shape.fixed_split_tiles) + " tiles in " +
                                               std::to_string(shape.max_blocks) +
                                               " blocks; at most 1024, raise fixed_split_tiles");
    }
    layout.slots = pieces * shape.seqs;
  }
  std::size_t bytes = 0;
  const auto carve = [&](std::size_t size) {
    const std::size_t at = bytes;
    bytes += aligned(size);
    return at;
  };
  const auto slot_rows = static_cast<std::size_t>(layout.slots) * static_cast<std::size_t>(rows);
  layout.parts_offset = carve(sizeof(MlaPart) * static_cast<std::size_t>(layout.parts));
  layout.seqs_offset = carve(sizeof(MlaSeqPlan) * static_cast<std::size_t>(shape.seqs));
  layout.split_offset = carve(sizeof(std::int32_t) * (static_cast<std::size_t>(shape.seqs) + 1));
  layout.lse_offset = carve(sizeof(float) * slot_rows);
  layout.out_offset = carve(sizeof(float) * slot_rows * kMlaLatent);
  layout.workspace_bytes = bytes;
  return layout;
}

}  // namespace tessera::cuda

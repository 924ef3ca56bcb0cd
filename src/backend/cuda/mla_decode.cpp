// Checks, and the table from (kernel, row format) to launcher.
#include "backend/cuda/mla_decode.h"

#include <algorithm>
#include <string>

#include "backend/cuda/mla_kernel.h"

namespace tessera::cuda {
namespace {

Error refusal(ErrorKind kind, std::string what) { return {kind, "mla_decode", std::move(what)}; }

Result<void> check_lengths(const MlaDecodeLengths& lengths) {
  if ((lengths.kv_rows == nullptr) == (lengths.query_rows == nullptr)) {
    return refusal(ErrorKind::kInvalidArgument, "set exactly one of kv_rows and query_rows");
  }
  return {};
}
std::byte* at(void* workspace, std::size_t offset) { return static_cast<std::byte*>(workspace) + offset; }
}  // namespace

Result<void> mla_plan(const MlaDecodeLayout& layout, const MlaDecodeLengths& lengths, void* workspace,
                      cudaStream_t stream) {
  TS_TRY(check_lengths(lengths));
  launch_mla_plan(layout, lengths, reinterpret_cast<MlaPart*>(at(workspace, layout.parts_offset)),
                  reinterpret_cast<MlaSeqPlan*>(at(workspace, layout.seqs_offset)),
                  reinterpret_cast<std::int32_t*>(at(workspace, layout.split_offset)), stream);
  return {};
}

Result<void> mla_decode(const MlaDecodeLayout& layout, const MlaDecodeWork& work, void* workspace,
                        cudaStream_t stream) {
  TS_TRY(check_lengths(work.lengths));
  const MlaDecodeShape& shape = layout.shape;
  const auto row_bytes = kv_row_bytes(shape.kv, KvRowShape::mla(kMlaLatent, kMlaRope));
  if (work.kv.format != shape.kv || work.kv.block_size != kMlaBlockSize || work.kv.row_bytes != *row_bytes) {
    return refusal(ErrorKind::kMismatch, "a cache of " + std::string(name_of(work.kv.format)) + " rows of " +
                                             std::to_string(work.kv.row_bytes) + " bytes in blocks of " +
                                             std::to_string(work.kv.block_size) + "; the layout expects " +
                                             std::string(name_of(shape.kv)) + " rows of " +
                                             std::to_string(*row_bytes) + " bytes in blocks of 64");
  }
  if (!(work.softmax_scale > 0.0F) || !(work.kv.scale > 0.0F)) {
    return refusal(ErrorKind::kInvalidArgument, "softmax scale " + std::to_string(work.softmax_scale) +
                                                    ", row scale " + std::to_string(work.kv.scale) +
                                                    "; both must be positive");
  }
  const float row_scale = shape.kv == KvFormat::kFp8 ? work.kv.scale : 1.0F;
  const MlaArgs args{.q = work.q,
                     .kv = work.kv.data,
                     .block_table = work.block_table,
                     .kv_rows = work.lengths.kv_rows,
                     .query_rows = work.lengths.query_rows,
                     .out = work.out,
                     .lse = work.lse,
                     .parts = reinterpret_cast<const MlaPart*>(at(workspace, layout.parts_offset)),
                     .seqs_plan = reinterpret_cast<const MlaSeqPlan*>(at(workspace, layout.seqs_offset)),
                     .split = reinterpret_cast<const std::int32_t*>(at(workspace, layout.split_offset)),
                     .partial_out = reinterpret_cast<float*>(at(workspace, layout.out_offset)),
                     .partial_lse = reinterpret_cast<float*>(at(workspace, layout.lse_offset)),
                     .scale_log2 = work.softmax_scale * 1.4426950408889634F * row_scale,
                     .out_scale = row_scale,
                     .max_blocks = shape.max_blocks,
                     .seqs = shape.seqs,
                     .q_tokens = shape.q_tokens,
                     .heads = shape.heads,
                     .fixed_tiles = shape.fixed_split_tiles,
                     .out_f32 = shape.out_f32 ? 1 : 0};
  if (layout.kernel == MlaKernel::kPortable) {
    launch_mla_decode_portable(layout, args, stream);
  } else if (shape.kv == KvFormat::kBF16) {
    launch_mla_decode_bf16_sm90(layout, args, work.kv, stream);
  } else if (shape.fp8_math) {
    launch_mla_decode_fp8_math_sm90(layout, args, work.kv, stream);
  } else if (shape.kv == KvFormat::kFp8) {
    launch_mla_decode_fp8_sm90(layout, args, work.kv, stream);
  } else {
    launch_mla_decode_fp8_grouped_sm90(layout, args, work.kv, stream);
  }
  launch_mla_merge(layout, args, stream);
  return {};
}

}  // namespace tessera::cuda

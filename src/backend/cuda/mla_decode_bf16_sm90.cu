// mla_decode_bf16_sm90: launches decode attention over bf16 rows on Hopper. The kernel: mla_decode_sm90.cuh.
#include "backend/cuda/mla_launch_sm90.cuh"

namespace tessera::cuda {

void launch_mla_decode_bf16_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                 cudaStream_t stream) {
  using sm90::RowsBf16;
  if (layout.late) {
    sm90::launch<RowsBf16, true>(layout, args, kv.blocks, stream);
  } else {
    sm90::launch<RowsBf16, false>(layout, args, kv.blocks, stream);
  }
}

}  // namespace tessera::cuda

// mla_decode_fp8_grouped_sm90: launches decode attention over 656-byte rows: e4m3 with four scales, bf16 rope
// on Hopper. The kernel: mla_decode_sm90.cuh.
#include "backend/cuda/mla_launch_sm90.cuh"

namespace tessera::cuda {

void launch_mla_decode_fp8_grouped_sm90(const MlaDecodeLayout& layout, const MlaArgs& args,
                                        cudaStream_t stream) {
  if (layout.late) {
    sm90::launch<sm90::RowsFp8Grouped, true>(layout, args, 0, stream);
  } else {
    sm90::launch<sm90::RowsFp8Grouped, false>(layout, args, 0, stream);
  }
}

}  // namespace tessera::cuda

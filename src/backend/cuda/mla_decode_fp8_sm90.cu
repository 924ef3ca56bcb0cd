// mla_decode_fp8_sm90: launches decode attention over e4m3 rows with one scale on Hopper. The kernel:
// mla_decode_sm90.cuh.
#include "backend/cuda/mla_launch_sm90.cuh"

namespace tessera::cuda {

void launch_mla_decode_fp8_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream) {
  if (layout.late) {
    sm90::launch<sm90::RowsFp8, true>(layout, args, 0, stream);
  } else {
    sm90::launch<sm90::RowsFp8, false>(layout, args, 0, stream);
  }
}

}  // namespace tessera::cuda

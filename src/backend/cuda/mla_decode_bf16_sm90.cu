// mla_decode_bf16_sm90: launches decode attention over bf16 rows on Hopper. The kernels: mla_decode_sm90.cuh,
// and for at most 8 query rows mla_swapped_sm90.cuh.
#include "backend/cuda/mla_launch_sm90.cuh"
#include "backend/cuda/mla_swapped_launch.cuh"

namespace tessera::cuda {

void launch_mla_decode_bf16_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                 cudaStream_t stream) {
  if (layout.tile_rows == 8) {
    sm90::launch_swapped<sm90::SwappedBf16, 8>(layout, args, kv.blocks, stream);
  } else if (layout.late) {
    sm90::launch<true>(layout, args, kv.blocks, stream);
  } else {
    sm90::launch<false>(layout, args, kv.blocks, stream);
  }
}

}  // namespace tessera::cuda

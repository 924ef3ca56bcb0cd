// mla_decode_fp8_math_sm90: launches decode attention over e4m3 rows with e4m3 products on Hopper. The
// kernel: mla_swapped_sm90.cuh.
#include "backend/cuda/mla_swapped_launch.cuh"

namespace tessera::cuda {

void launch_mla_decode_fp8_math_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                     cudaStream_t stream) {
  sm90::launch_swapped<sm90::SwappedFp8Math, 64>(layout, args, kv.blocks, stream);
}

}  // namespace tessera::cuda

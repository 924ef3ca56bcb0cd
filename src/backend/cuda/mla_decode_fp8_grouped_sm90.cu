// mla_decode_fp8_grouped_sm90: launches decode attention over 656-byte rows (e4m3 with four scales, bf16
// rope) on Hopper. The kernel: mla_swapped_sm90.cuh.
#include "backend/cuda/mla_swapped_launch.cuh"

namespace tessera::cuda {

void launch_mla_decode_fp8_grouped_sm90(const MlaDecodeLayout& layout, const MlaArgs& args, const KvLayer& kv,
                                        cudaStream_t stream) {
  sm90::launch_swapped<sm90::SwappedFp8Grouped>(layout, args, kv.blocks, stream);
}

}  // namespace tessera::cuda

// Host side of the swapped kernel: tensor maps and the launch itself.
#pragma once

#include "backend/cuda/mla_swapped_kernel.cuh"
#include "backend/cuda/mla_tensor_map.h"

namespace tessera::cuda::sm90 {

template <class Rows, int kN>
void launch_swapped(const MlaDecodeLayout& layout, const MlaArgs& args, std::int32_t blocks,
                    cudaStream_t stream) {
  using C = SwappedConfig<Rows, kN>;
  const auto kernel = swapped_kernel<Rows, kN>;
  TS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, C::kSharedBytes));
  const MlaRowMap rows{.data = args.kv,
                       .row_bytes = Rows::kRowBytes,
                       .rows = kMlaBlockSize,
                       .outer = blocks,
                       .box_bytes = Rows::kBoxRow,
                       .swizzled = true,
                       .bf16 = kIsBf16<Rows>};
  MlaRowMap scales = rows;
  scales.box_bytes = 16;
  scales.swizzled = false;
  const CUtensorMap kv_map = map_rows(rows);
  const CUtensorMap scale_map = Rows::kGrouped ? map_rows(scales) : kv_map;
  const dim3 grid(static_cast<unsigned>(layout.row_tiles), static_cast<unsigned>(layout.parts));
  kernel<<<grid, C::kThreads, C::kSharedBytes, stream>>>(args, kv_map, scale_map);
  TS_CUDA(cudaGetLastError());
}

// The narrowest tile that the layout names.
template <class Rows>
void launch_swapped(const MlaDecodeLayout& layout, const MlaArgs& args, std::int32_t blocks,
                    cudaStream_t stream) {
  switch (layout.tile_rows) {
    case 8:
      return launch_swapped<Rows, 8>(layout, args, blocks, stream);
    case 16:
      return launch_swapped<Rows, 16>(layout, args, blocks, stream);
    case 32:
      return launch_swapped<Rows, 32>(layout, args, blocks, stream);
    default:
      return launch_swapped<Rows, 64>(layout, args, blocks, stream);
  }
}

}  // namespace tessera::cuda::sm90

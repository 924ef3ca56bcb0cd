// Host side of the swapped kernel: tensor maps and the launch itself.
#pragma once

#include <cstddef>

#include "backend/cuda/mla_swapped_kernel.cuh"
#include "backend/cuda/mla_tensor_map.h"

namespace tessera::cuda::sm90 {

template <class Rows, int kN>
void launch_swapped(const MlaDecodeLayout& layout, const MlaArgs& args, std::int32_t blocks,
                    cudaStream_t stream) {
  using C = SwappedConfig<Rows, kN>;
  const auto kernel = swapped_kernel<Rows, kN>;
  TS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, C::kSharedBytes));
  MlaRowMap rows{.data = args.kv,
                 .row_bytes = Rows::kRowBytes,
                 .rows = kMlaBlockSize,
                 .outer = blocks,
                 .chunk_bytes = Rows::kBoxRow,
                 .chunks = Rows::kGrouped ? C::kLatentBoxes : C::kBoxes,
                 .box_chunks = Rows::kGrouped ? C::kLatentBoxes : C::kBoxes};
  const CUtensorMap kv_map = map_rows(rows);
  CUtensorMap rope_map = kv_map;  // of grouped rows: rope, behind the scales
  CUtensorMap scale_map = kv_map;
  if constexpr (Rows::kGrouped) {
    rows.data = static_cast<const std::byte*>(args.kv) + kMlaLatent + 16;
    rows.chunks = Rows::kRopeBoxes;
    rows.box_chunks = Rows::kRopeBoxes;
    rope_map = map_rows(rows);
    rows.data = static_cast<const std::byte*>(args.kv) + kMlaLatent;
    rows.chunk_bytes = 16;
    rows.chunks = 1;
    rows.box_chunks = 1;
    rows.swizzled = false;
    scale_map = map_rows(rows);
  }
  const dim3 grid(static_cast<unsigned>(layout.row_tiles), static_cast<unsigned>(layout.parts));
  launch_early(kernel, {grid, C::kThreads, C::kSharedBytes}, stream, args, kv_map, rope_map, scale_map);
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

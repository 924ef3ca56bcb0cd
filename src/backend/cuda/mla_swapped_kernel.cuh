// The swapped kernel itself: barriers, roles, and the warp that fills the stages. The idea:
// mla_swapped_sm90.cuh.
#pragma once

#include "backend/cuda/mla_swapped_score.cuh"
#include "backend/cuda/mla_swapped_values.cuh"
#include "backend/cuda/overlap.cuh"

namespace tessera::cuda::sm90 {

// One warp asks the copy engine for tiles: kv_map brings all of a tile; of grouped rows the latent, rope_map
// the rope and scale_map the scales.
template <class Rows, int kN>
__device__ inline void fill_stages(const MlaArgs& args, const CUtensorMap& kv_map,
                                   const CUtensorMap& rope_map, const CUtensorMap& scale_map,
                                   const SwappedPlace<SwappedConfig<Rows, kN>>& place, std::int32_t part) {
  using C = SwappedConfig<Rows, kN>;
  constexpr int kBoxBytes = Box<Rows>::kBytes;
  const int lane = threadIdx.x % 32;
  MlaWalk walk(args, part);
  MlaPiece piece;
  Ring<C::kStages> ring;
  while (walk.next(args, piece)) {
    if (most_rows(args, piece.seq) == 0) continue;
    const std::int32_t* table = args.block_table + static_cast<std::int64_t>(piece.seq) * args.max_blocks;
    std::int32_t block = load_entry(table, piece.begin);  // read one round before it is used
    for (std::int32_t tile = piece.begin; tile < piece.end; ++tile) {
      const std::int32_t next = tile + 1 < piece.end ? load_entry(table, tile + 1) : 0;
      barrier_wait(place.empty(ring.stage()), ring.phase() ^ 1);
      if (lane == 0) {
        const std::uint32_t stage_at = place.stage(ring.stage());
        const std::uint32_t full = place.full(ring.stage());
        barrier_expect(full, C::kStageBytes);
        if constexpr (Rows::kGrouped) {
          copy_tile(place.scales(stage_at, kBoxBytes), &scale_map, full, 0, 0, block);
          copy_tile(stage_at + C::kLatentBoxes * kBoxBytes, &rope_map, full, 0, 0, block);
        }
        copy_tile(stage_at, &kv_map, full, 0, 0, block);
      }
      __syncwarp();
      ring.advance();
      block = next;
    }
  }
}

template <class Rows, int kN>
__global__ void __launch_bounds__(SwappedConfig<Rows, kN>::kThreads, 1)
    swapped_kernel(const __grid_constant__ MlaArgs args, const __grid_constant__ CUtensorMap kv_map,
                   const __grid_constant__ CUtensorMap rope_map,
                   const __grid_constant__ CUtensorMap scale_map) {
  using C = SwappedConfig<Rows, kN>;
  extern __shared__ __align__(1024) unsigned char shared[];
  const SwappedPlace<C> place{shared_address(shared)};
  const std::int32_t first_row = blockIdx.x * kN;
  const std::int32_t part = blockIdx.y;
  if (threadIdx.x == 0) {
    if (place.base % 1024 != 0) __trap();  // swizzled boxes start on their own size
    for (int s = 0; s < C::kStages; ++s) {
      barrier_init(place.full(s), 1);
      barrier_init(place.empty(s), 8);  // one arrival a warp, here and below
    }
    for (int parity = 0; parity < 2; ++parity) {
      barrier_init(place.p_full(parity), 128);  // one arrival a lane of the scorer
      barrier_init(place.p_empty(parity), 8);
      barrier_init(place.top_full(parity), 4);
    }
    barrier_init_done();
  }
  __syncthreads();
  wait_for_previous();  // for the plan, the queries, the rows written by earlier kernels

  const int group =
      __shfl_sync(~0U, threadIdx.x / 128, 0);  // tells the compiler that warps do not diverge here
  if (group == 3) {
    give_registers<C::kFillerRegisters>();
    if (threadIdx.x < 3 * 128 + 32) fill_stages<Rows, kN>(args, kv_map, rope_map, scale_map, place, part);
  } else if (group == 2) {
    take_registers<C::kScorerRegisters>();
    Scorer<Rows, kN>(args, place).run(part, first_row);
  } else {
    take_registers<C::kValuesRegisters>();
    Multiplier<Rows, kN>(args, place, group).run(part, first_row);
  }
}

}  // namespace tessera::cuda::sm90

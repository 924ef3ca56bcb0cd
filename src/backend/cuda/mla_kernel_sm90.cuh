// The bf16 kernel itself: barriers, roles, and the warp that fills the stages. The idea: mla_decode_sm90.cuh.
#pragma once

#include "backend/cuda/mla_consume_sm90.cuh"
#include "backend/cuda/overlap.cuh"

namespace tessera::cuda::sm90 {

// The query rows of piece number `pieces`, unchanged. One thread.
__device__ inline void copy_q(const CUtensorMap& q_map, const Place& place, std::uint32_t pieces,
                              std::int32_t row) {
  barrier_wait(place.q_empty(), (pieces & 1) ^ 1);
  barrier_expect(place.q_full(), Config::kTileBytes);
  for (int chunk = 0; chunk < Config::kChunks; ++chunk) {
    copy_tile(place.q() + chunk * Config::kChunkBytes, &q_map, place.q_full(), row, chunk, 0);
  }
}

// Warpgroup 2 of the bf16 form: one warp that asks the copy engine for tiles.
__device__ inline void fill_by_copy(const MlaArgs& args, const CUtensorMap& q_map, const CUtensorMap& kv_map,
                                    const Place& place, std::int32_t part, std::int32_t first_row) {
  const int lane = threadIdx.x % 32;
  const int total_rows = args.q_tokens * args.heads;
  MlaWalk walk(args, part);
  MlaPiece piece;
  std::uint32_t done = 0;
  std::uint32_t pieces = 0;
  while (walk.next(args, piece)) {
    if (most_rows(args, piece.seq) == 0) continue;
    const std::int32_t* table = args.block_table + static_cast<std::int64_t>(piece.seq) * args.max_blocks;
    // Block ids are read one round before they are used.
    std::int32_t block = load_entry(table, piece.begin);
    if (lane == 0) copy_q(q_map, place, pieces, piece.seq * total_rows + first_row);
    __syncwarp();
    for (std::int32_t tile = piece.begin; tile < piece.end; ++tile, ++done) {
      const std::int32_t next = tile + 1 < piece.end ? load_entry(table, tile + 1) : 0;
      const int stage = done & 1;
      const std::uint32_t parity = ((done / 2) & 1) ^ 1;
      const auto copy = [&](int chunk) {
        if (lane != 0) return;
        const std::uint32_t to = place.stage(stage) + chunk * Config::kChunkBytes;
        barrier_expect(place.full(stage, chunk), Config::kChunkBytes);
        copy_tile(to, &kv_map, place.full(stage, chunk), 0, chunk, block);
      };
      for (int i = 0; i < Config::kQuarters; ++i) {
        const int chunk = chunk_at(2 * i);
        barrier_wait(place.empty(stage, chunk / Config::kQuarterChunks), parity);
        copy(chunk);
        copy(chunk + 1);
      }
      copy(Config::kRopeChunk);
      block = next;
    }
    ++pieces;
  }
}

// A block is given 168 registers a thread at its start, and more than their sum would be waited for in vain.
static_assert(2 * Config::kConsumerRegisters + Config::kFillerRegisters <= 3 * 168);

template <bool kLate>
__global__ void __launch_bounds__(Config::kThreads, 1)
    decode_kernel(const __grid_constant__ MlaArgs args, const __grid_constant__ CUtensorMap q_map,
                  const __grid_constant__ CUtensorMap kv_map) {
  extern __shared__ unsigned char shared[];
  const Place place{(shared_address(shared) + 1023) / 1024 * 1024};
  const std::int32_t first_row = blockIdx.x * Config::kRows;
  const std::int32_t part = blockIdx.y;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Config::kStages; ++stage) {
      for (int chunk = 0; chunk < Config::kChunks; ++chunk) barrier_init(place.full(stage, chunk), 1);
      for (int quarter = 0; quarter < Config::kQuarters; ++quarter) {
        barrier_init(place.empty(stage, quarter), 4);
      }
    }
    barrier_init(place.q_full(), 1);
    barrier_init(place.q_empty(), Config::kConsumers / 32);
    barrier_init_done();
  }
  __syncthreads();
  wait_for_previous();  // for the plan, the queries, the rows written by earlier kernels

  const int group =
      __shfl_sync(~0U, threadIdx.x / 128, 0);  // tells the compiler that warps do not diverge here
  if (group == 2) {
    give_registers<Config::kFillerRegisters>();
    if (threadIdx.x < Config::kConsumers + 32) fill_by_copy(args, q_map, kv_map, place, part, first_row);
  } else {
    take_registers<Config::kConsumerRegisters>();
    if (group == 0) {
      Consumer<0, false>(args, place).run(part, first_row);
    } else {
      Consumer<1, kLate>(args, place).run(part, first_row);
    }
  }
}

}  // namespace tessera::cuda::sm90

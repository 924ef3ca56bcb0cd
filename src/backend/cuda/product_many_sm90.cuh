// product_many_sm90: y = x W^T for many rows of x, on Hopper's tensor cores.
//
// In   x       [rows, in] bf16, in the order of columns that product_many_sm90.h says
//      W       the device layout of weight_layout.h: bf16, fp8 or int4
// Out  y       [rows, out] bf16 or f32; gated: [rows, out / 2] = silu(gate x) * up x
//
// Bound: the tensor cores. A tile of bf16 multiplies 128 rows of W and up to 256 of x; both are operands in
//   shared memory (8 rows x 16 bytes of the layout are a core matrix of wgmma). Weights that are unpacked are
//   operands from registers: 192 rows of W a tile and up to 128 of x (int4), or 96 (fp8, whose sum over 128
//   columns takes as many registers again as the result).
// Roles: warpgroups of 64 rows of W each, all over the same rows of x, and one thread that asks for copies.
//   Three warpgroups that unpack share the tensor cores: while one unpacks, the others multiply.
// Few tiles: blocks of a cluster share the columns of one, and each adds up and stores some of its rows of x.
// Order: of the sums by columns, whatever the tile. Tiles by place in the grid: nothing is left to chance.
// Rows past the end of an item are another item's or zeros: each is a column of D of its own and is not
// stored.
#pragma once

#include <algorithm>

#include "backend/cuda/product_many_multiply_sm90.cuh"
#include "backend/cuda/product_many_store_sm90.cuh"

namespace tessera::cuda {

// One thread: asks for the copies of every tile of this block.
template <WeightFormat F>
__device__ __forceinline__ void ask_for_tiles(const Product& p, const ManyMaps& maps, const ManyPlan& plan,
                                              int tiles, const ManyRing<F>& ring) {
  using S = ManyShape<F>;
  ManyPlace<F> at;
  const LoadRange loads = load_range(plan);
  for (int tile = first_tile(plan); tile < tiles; tile += tile_step(plan)) {
    const ManyTile t = many_tile(p, plan, tile);
    const int boxes = (t.item.count + S::kBoxRows - 1) / S::kBoxRows;
    const int x_matrix = p.items != nullptr || p.x_matrix_stride == 0 ? 0 : t.item.matrix;
    const int pair = t.row_block * S::kPairs;
    const auto bytes =
        static_cast<std::uint32_t>(boxes * S::kHalves * S::kBoxBytes + S::kWeights + S::kScales);
    for (int load = loads.first; load < loads.end; ++load) {
      const std::uint32_t full = ring.full(at.stage());
      barrier_wait(ring.empty(at.stage()), at.phase() ^ 1);
      barrier_expect(full, bytes);
      copy_box(ring.weights(at.stage()), &maps.weight, full, load * (S::kWeightBytes / 4), 0, pair,
               t.item.matrix);
      if constexpr (S::kScaleBytes > 0) {
        copy_box(ring.scales(at.stage()), &maps.scale, full, load * (S::kScaleBytes / 4), 0, pair,
                 t.item.matrix);
      }
      for (int half = 0; half < S::kHalves; ++half) {
        for (int box = 0; box < boxes; ++box) {
          copy_box(ring.x(at.stage()) + static_cast<std::uint32_t>(half * S::kHalfBytes + box * S::kBoxBytes),
                   &maps.x, full, load * S::kCols + half * 64, t.item.first + box * S::kBoxRows, x_matrix, 0);
        }
      }
      at.advance();
    }
  }
}

template <WeightFormat F, int kN>
__device__ __forceinline__ void make_tile(const Product& p, const ManyPlan& plan, const ManyTile& tile,
                                          const ManyRing<F>& ring, ManyPlace<F>& at, int group,
                                          ManyOperand<F>& operand) {
  float sum[kN / 2];
  const LoadRange loads = load_range(plan);
  multiply_tile<kN>(sum, ring, at, loads.end - loads.first, group, operand);
  RowRange rows{0, tile.item.count};
  if (plan.split > 1) add_up<F, kN>(plan, ring, sum, rows);
  if (F == WeightFormat::kInt4Group32) scale_sums<kN>(p, tile.item, rows, operand.down(), sum);
  store_tile<F, kN>(p, plan, tile, rows, sum, ring.stored(group), group);
}

// Every tile of this block, by warpgroup `group`.
template <WeightFormat F>
__device__ __forceinline__ void make_tiles(const Product& p, const ManyPlan& plan, int tiles,
                                           const ManyRing<F>& ring, int group) {
  ManyPlace<F> at;
  int tile = first_tile(plan);
  if (tile >= tiles) return;
  ManyOperand<F> operand(p.weight);
  ManyTile next = many_tile(p, plan, tile);
  while (true) {
    const ManyTile now = next;
    tile += tile_step(plan);
    if (tile < tiles) next = many_tile(p, plan, tile);  // looked up while this one is made
    const int rows = now.item.count;
    if constexpr (F == WeightFormat::kBF16) {
      if (rows <= 64) {
        make_tile<F, 64>(p, plan, now, ring, at, group, operand);
      } else if (rows <= 128) {
        make_tile<F, 128>(p, plan, now, ring, at, group, operand);
      } else if (rows <= 192) {
        make_tile<F, 192>(p, plan, now, ring, at, group, operand);
      } else {
        make_tile<F, 256>(p, plan, now, ring, at, group, operand);
      }
    } else {
      if (rows <= 16) {
        make_tile<F, 16>(p, plan, now, ring, at, group, operand);
      } else if (rows <= 32) {
        make_tile<F, 32>(p, plan, now, ring, at, group, operand);
      } else if (rows <= 48) {
        make_tile<F, 48>(p, plan, now, ring, at, group, operand);
      } else if (rows <= 64) {
        make_tile<F, 64>(p, plan, now, ring, at, group, operand);
      } else if (rows <= 80) {
        make_tile<F, 80>(p, plan, now, ring, at, group, operand);
      } else if (rows <= 96 || F == WeightFormat::kFp8Block128) {
        make_tile<F, 96>(p, plan, now, ring, at, group, operand);
      } else {
        if constexpr (F == WeightFormat::kInt4Group32) {
          if (rows <= 112) {
            make_tile<F, 112>(p, plan, now, ring, at, group, operand);
          } else {
            make_tile<F, 128>(p, plan, now, ring, at, group, operand);
          }
        }
      }
    }
    if (tile >= tiles) return;
  }
}

template <WeightFormat F>
__global__ void __launch_bounds__(ManyShape<F>::kThreads, 1)
    product_many_sm90_kernel(const __grid_constant__ Product p, const __grid_constant__ ManyMaps maps,
                             const __grid_constant__ ManyPlan plan) {
  using S = ManyShape<F>;
  extern __shared__ unsigned char shared_bytes[];
  const ManyRing<F> ring{(shared_address(shared_bytes) + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    for (int s = 0; s < S::kStages; ++s) {
      barrier_init(ring.full(s), 1);
      barrier_init(ring.empty(s), 4 * S::kGroups);
    }
    barrier_init_done();
  }
  __syncthreads();
  const int tiles = p.items != nullptr ? *p.item_count * plan.row_blocks : plan.tiles;
  const int group = __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 128, 0);
  if (group == S::kGroups) {
    give_registers<S::kAskerRegisters>();
    if (threadIdx.x % 128 == 0) ask_for_tiles<F>(p, maps, plan, tiles, ring);
    if (plan.split > 1) {  // the meetings of add_up
      cluster_sync();
      cluster_sync();
    }
  } else {
    take_registers<S::kMakerRegisters>();
    make_tiles<F>(p, plan, tiles, ring, group);
  }
}

// A launch in clusters of `split` blocks; grid and stream are missing.
template <WeightFormat F>
cudaLaunchConfig_t configure(int split, cudaLaunchAttribute& cluster) {
  using S = ManyShape<F>;
  TS_CUDA(cudaFuncSetAttribute(product_many_sm90_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               S::kSharedBytes));
  cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(split), 1, 1};
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(S::kThreads);
  config.dynamicSmemBytes = S::kSharedBytes;
  config.attrs = &cluster;
  config.numAttrs = split > 1 ? 1 : 0;
  return config;
}

template <WeightFormat F>
void launch_many_sm90(const Product& p, const ManyDevice& device, cudaStream_t stream) {
  using S = ManyShape<F>;
  const ManyMaps maps = map_product(p, {.cols = S::kCols,
                                        .x_rows = S::kBoxRows,
                                        .pairs = S::kPairs,
                                        .weight_bytes = S::kWeightBytes,
                                        .scale_bytes = S::kScaleBytes});
  const ManyPlan plan = plan_product(p,
                                     {.cols = S::kCols,
                                      .w_rows = 16 * S::kPairs,
                                      .x_rows = S::kXRows,
                                      .x_step = F == WeightFormat::kBF16 ? 64 : 16,
                                      .least_rows = F == WeightFormat::kBF16 ? 128 : 48},
                                     device);
  const auto kernel = product_many_sm90_kernel<F>;
  const std::int64_t tiles = p.items != nullptr ? std::int64_t{p.item_limit} * plan.row_blocks : plan.tiles;
  cudaLaunchAttribute cluster;
  cudaLaunchConfig_t config = configure<F>(plan.split, cluster);
  config.gridDim =
      dim3(static_cast<unsigned>(std::min<std::int64_t>(tiles * plan.split, device.multiprocessors)));
  config.stream = stream;
  TS_CUDA(cudaLaunchKernelEx(&config, kernel, p, maps, plan));
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda

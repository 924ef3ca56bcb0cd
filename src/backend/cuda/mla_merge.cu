// mla_merge: joins the partial results of sequences that were split. Exact for any partition of the rows:
//   out = sum_s out_s exp(lse_s - top) / sum_s exp(lse_s - top),   lse = top + log(sum_s exp(lse_s - top))
//
// In   partial_out [slots, q_tokens * heads, 512] f32, normalised; partial_lse [slots, q_tokens * heads],
// natural log Out  out [tokens, heads, 512] bf16 or f32; lse [tokens, heads]
//
// Bound: bytes, 2 KiB a piece and row, mostly from L2; in practice latency. Many rows of few pieces: a warp
// takes 128 columns of
//   a row, all loads in flight at once, no barriers. Few rows of many pieces (one long sequence: 64 rows of
//   132): a block takes 128 columns, each warp adds every fourth piece, eight loads in flight.
// The order of additions depends on the number of pieces alone, never on the batch.
#include <cuda_bf16.h>

#include <algorithm>

#include "backend/cuda/mla_kernel.h"
#include "backend/cuda/overlap.cuh"

namespace tessera::cuda {
namespace {

struct Config {
  static constexpr int kChains = 4;                      // warps; warp w adds pieces w, w + 4, ...
  static constexpr int kColumns = 128;                   // of one item: a float4 a lane
  static constexpr int kSlices = kMlaLatent / kColumns;  // items a row
  static constexpr int kThreads = 32 * kChains;
  static constexpr int kFewPieces = 8;              // one warp adds them all, in order
  static constexpr int kMaxPieces = 1024;           // weights in shared memory; the layout refuses more
  static constexpr int kInFlight = 8;               // loads a thread: covers the latency of L2
  static constexpr int kBlocksAMultiprocessor = 6;  // leaves 80 registers a thread, for the loads in flight
};

__device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

__device__ float maximum_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(~0U, value, step));
  return value;
}
__device__ float sum_of_warp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  return value;
}

// Divides by the sum of weights and stores 128 columns; the first slice also stores the log-sum-exp.
__device__ void write(const MlaArgs& args, std::int64_t out_row, int slice, int lane, float4 total, float top,
                      float sum) {
  const float inverse = sum > 0.0F ? 1.0F / sum : 0.0F;
  total = {total.x * inverse, total.y * inverse, total.z * inverse, total.w * inverse};
  const std::int64_t place = (out_row * kMlaLatent + Config::kColumns * slice) / 4 + lane;
  if (args.out_f32) {
    reinterpret_cast<float4*>(args.out)[place] = total;
  } else {
    const __nv_bfloat162 low = __floats2bfloat162_rn(total.x, total.y);
    const __nv_bfloat162 high = __floats2bfloat162_rn(total.z, total.w);
    reinterpret_cast<uint2*>(args.out)[place] = {reinterpret_cast<const std::uint32_t&>(low),
                                                 reinterpret_cast<const std::uint32_t&>(high)};
  }
  if (slice == 0 && lane == 0) args.lse[out_row] = sum > 0.0F ? top + __logf(sum) : -INFINITY;
}

__device__ void merge_few(const MlaArgs& args, const MlaPlanRule& rule, const MlaSeqPlan& plan, int seq,
                          int row, int rows, int slice, int lane) {
  const float* column =
      args.partial_out + static_cast<std::int64_t>(row) * kMlaLatent + Config::kColumns * slice + 4 * lane;
  float4 values[Config::kFewPieces];
  float lse[Config::kFewPieces];
#pragma unroll
  for (int i = 0; i < Config::kFewPieces; ++i) {
    if (i >= plan.pieces) {
      lse[i] = -INFINITY;
      continue;
    }
    const std::int64_t slot = mla_slot(rule, plan, i);
    values[i] = __ldcg(reinterpret_cast<const float4*>(column + slot * rows * kMlaLatent));
    lse[i] = __ldcg(args.partial_lse + slot * rows + row);
  }
  float top = lse[0];
#pragma unroll
  for (int i = 1; i < Config::kFewPieces; ++i) top = fmaxf(top, lse[i]);
  const float shift = top == -INFINITY ? 0.0F : top;
  float sum = 0.0F;
  float4 total{};
#pragma unroll
  for (int i = 0; i < Config::kFewPieces; ++i) {
    if (i >= plan.pieces) break;
    const float weight = __expf(lse[i] - shift);
    sum += weight;
    total = {fmaf(weight, values[i].x, total.x), fmaf(weight, values[i].y, total.y),
             fmaf(weight, values[i].z, total.z), fmaf(weight, values[i].w, total.w)};
  }
  write(args, static_cast<std::int64_t>(seq) * rows + row, slice, lane, total, top, sum);
}

__global__ void __launch_bounds__(Config::kThreads, Config::kBlocksAMultiprocessor)
    merge_kernel(MlaArgs args, MlaPlanRule rule) {
  __shared__ float weights[Config::kMaxPieces];
  __shared__ float4 chains[Config::kChains][32];
  wait_for_previous();
  const int rows = args.q_tokens * args.heads;  // a sequence
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const std::int32_t items = args.split[0] * rows * Config::kSlices;
  for (std::int32_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int32_t split_rows = items / Config::kSlices;
    const int slice =
        item / split_rows;  // slowest, so that the items that do four slices at once are spread evenly
    const int row = item % split_rows % rows;
    const int seq = args.split[1 + item % split_rows / rows];
    const MlaSeqPlan plan = args.seqs_plan[seq];
    if (plan.pieces <= Config::kFewPieces) {
      // The row's first item does all four slices, one a warp.
      if (slice == 0) merge_few(args, rule, plan, seq, row, rows, warp, lane);
      continue;
    }
    for (int piece = threadIdx.x; piece < plan.pieces; piece += Config::kThreads) {
      weights[piece] = args.partial_lse[static_cast<std::int64_t>(mla_slot(rule, plan, piece)) * rows + row];
    }
    __syncthreads();
    float top = -INFINITY;  // every warp for itself, in the same order
    for (int piece = lane; piece < plan.pieces; piece += 32) top = fmaxf(top, weights[piece]);
    top = maximum_of_warp(top);
    const float shift = top == -INFINITY ? 0.0F : top;  // a token without rows: all weights 0, never NaN
    float sum = 0.0F;
    for (int piece = lane; piece < plan.pieces; piece += 32) sum += __expf(weights[piece] - shift);
    sum = sum_of_warp(sum);

    float4 own{};
    const float* column =
        args.partial_out + static_cast<std::int64_t>(row) * kMlaLatent + Config::kColumns * slice + 4 * lane;
    for (int first = warp; first < plan.pieces; first += Config::kChains * Config::kInFlight) {
      float4 values[Config::kInFlight];
#pragma unroll
      for (int i = 0; i < Config::kInFlight; ++i) {
        const int piece = min(first + Config::kChains * i, plan.pieces - 1);
        const std::int64_t slot = mla_slot(rule, plan, piece);
        values[i] = __ldcg(reinterpret_cast<const float4*>(column + slot * rows * kMlaLatent));
      }
#pragma unroll
      for (int i = 0; i < Config::kInFlight; ++i) {
        const int piece = first + Config::kChains * i;
        if (piece >= plan.pieces) break;
        const float weight = __expf(weights[piece] - shift);
        own = {fmaf(weight, values[i].x, own.x), fmaf(weight, values[i].y, own.y),
               fmaf(weight, values[i].z, own.z), fmaf(weight, values[i].w, own.w)};
      }
    }
    chains[warp][lane] = own;
    __syncthreads();
    if (warp == 0) {
      float4 total = plus(plus(chains[0][lane], chains[1][lane]), plus(chains[2][lane], chains[3][lane]));
      write(args, static_cast<std::int64_t>(seq) * rows + row, slice, lane, total, top, sum);
    }
    __syncthreads();  // weights and chains are free for the next item
  }
}

}  // namespace

void launch_mla_merge(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream) {
  const std::int64_t items =
      std::int64_t{layout.shape.seqs} * layout.shape.q_tokens * layout.shape.heads * Config::kSlices;
  const MlaPlanRule rule{.seqs = layout.shape.seqs,
                         .parts = layout.parts,
                         .overhead = layout.piece_overhead,
                         .split_cost = layout.split_cost,
                         .fixed_tiles = layout.shape.fixed_split_tiles};
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>(items, std::int64_t{layout.multiprocessors} * Config::kBlocksAMultiprocessor));
  launch_early(merge_kernel, {blocks, Config::kThreads}, stream, args, rule);
}

}  // namespace tessera::cuda

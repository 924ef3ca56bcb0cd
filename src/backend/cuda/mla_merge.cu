// mla_merge: joins the partial results of sequences that were split. Exact for any partition of the rows:
//   out = sum_s out_s exp(lse_s - top) / sum_s exp(lse_s - top),   lse = top + log(sum_s exp(lse_s - top))
//
// In   partial_out [slots, q_tokens * heads, 512] f32, normalised; partial_lse [slots, q_tokens * heads], natural log
// Out  out [tokens, heads, 512] bf16 or f32; lse [tokens, heads]
//
// Bound: bytes, 2 KiB a piece and row; mostly L2. One thread block a row (token, head); rows of sequences that were not
// split return at once. Pieces are always added in four interleaved chains, however many threads share them, so that a
// result does not depend on the size of the batch.
#include <cuda_bf16.h>

#include "backend/cuda/mla_kernel.h"

namespace tessera::cuda {
namespace {

struct Config {
  static constexpr int kChains = 4;             // partial sums a row
  static constexpr int kColumns = kMlaLatent / 4;  // threads that cover a row with float4 each
  static constexpr int kMaxPieces = 1024;       // weights kept in shared memory; pieces beyond are refused by layout
  static constexpr int kManyRows = 1024;        // from here on, rows alone fill the device: one thread runs all chains
};
static_assert(Config::kColumns == 128);

__device__ float4 scaled_sum(float4 sum, float weight, float4 value) {
  return {fmaf(weight, value.x, sum.x), fmaf(weight, value.y, sum.y), fmaf(weight, value.z, sum.z),
          fmaf(weight, value.w, sum.w)};
}
__device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

template <int kGroups>  // groups of 128 threads a row: 1 or kChains
__global__ void __launch_bounds__(Config::kColumns* kGroups) merge_kernel(MlaArgs args, MlaPlanRule rule) {
  __shared__ float weights[Config::kMaxPieces];
  __shared__ float reduce[Config::kColumns * kGroups / 32];
  __shared__ float4 chains[kGroups > 1 ? Config::kChains : 1][Config::kColumns];
  constexpr int kThreads = Config::kColumns * kGroups;
  constexpr int kWarps = kThreads / 32;

#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  const int rows = args.q_tokens * args.heads;  // a sequence
  const int seq = blockIdx.x / rows;
  const int row = blockIdx.x % rows;
  const MlaSeqPlan plan = args.seqs_plan[seq];
  if (plan.pieces <= 1) return;

  float top = -INFINITY;
  for (int piece = threadIdx.x; piece < plan.pieces; piece += kThreads) {
    const float lse = args.partial_lse[static_cast<std::int64_t>(mla_slot(rule, plan, piece)) * rows + row];
    weights[piece] = lse;
    top = fmaxf(top, lse);
  }
  for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0U, top, step));
  if (threadIdx.x % 32 == 0) reduce[threadIdx.x / 32] = top;
  __syncthreads();
  top = reduce[0];
  for (int warp = 1; warp < kWarps; ++warp) top = fmaxf(top, reduce[warp]);

  const float shift = top == -INFINITY ? 0.0F : top;  // a token without rows: all weights 0, never NaN
  float sum = 0.0F;  // every thread adds all weights in the same order
  for (int piece = 0; piece < plan.pieces; ++piece) sum += __expf(weights[piece] - shift);

  const int column = threadIdx.x % Config::kColumns;
  const int group = threadIdx.x / Config::kColumns;
  constexpr int kOwn = Config::kChains / kGroups;  // chains of one thread
  float4 own[kOwn] = {};
  for (int first = 0; first < plan.pieces; first += Config::kChains) {
#pragma unroll
    for (int chain = 0; chain < kOwn; ++chain) {
      const int piece = first + group * kOwn + chain;
      if (piece >= plan.pieces) continue;
      const std::int64_t slot = mla_slot(rule, plan, piece);
      const auto* partial = reinterpret_cast<const float4*>(args.partial_out + (slot * rows + row) * kMlaLatent);
      own[chain] = scaled_sum(own[chain], __expf(weights[piece] - shift), __ldcg(partial + column));
    }
  }
  float4 total;
  if constexpr (kGroups == 1) {
    total = plus(plus(own[0], own[1]), plus(own[2], own[3]));
  } else {
    chains[group][column] = own[0];
    __syncthreads();
    if (group > 0) return;
    total = plus(plus(chains[0][column], chains[1][column]), plus(chains[2][column], chains[3][column]));
  }
  const float inverse = sum > 0.0F ? 1.0F / sum : 0.0F;
  total = {total.x * inverse, total.y * inverse, total.z * inverse, total.w * inverse};
  const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * Config::kColumns + column;
  if (args.out_f32) {
    reinterpret_cast<float4*>(args.out)[place] = total;
  } else {
    const __nv_bfloat162 low = __floats2bfloat162_rn(total.x, total.y);
    const __nv_bfloat162 high = __floats2bfloat162_rn(total.z, total.w);
    reinterpret_cast<uint2*>(args.out)[place] = {reinterpret_cast<const std::uint32_t&>(low),
                                                 reinterpret_cast<const std::uint32_t&>(high)};
  }
  if (threadIdx.x == 0) args.lse[blockIdx.x] = sum > 0.0F ? top + __logf(sum) : -INFINITY;
}

}  // namespace

void launch_mla_merge(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream) {
  const int rows = layout.shape.seqs * layout.shape.q_tokens * layout.shape.heads;
  const bool many = rows >= Config::kManyRows;
  const MlaPlanRule rule{.seqs = layout.shape.seqs,
                         .parts = layout.parts,
                         .overhead = layout.piece_overhead,
                         .split_cost = layout.split_cost,
                         .fixed_tiles = layout.shape.fixed_split_tiles};
  // The launch may start while the attention kernel drains; griddepcontrol.wait holds it until that has finished.
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(rows));
  config.blockDim = dim3(many ? Config::kColumns : Config::kColumns * Config::kChains);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = layout.kernel == MlaKernel::kSm90 ? 1 : 0;
  if (many) {
    TS_CUDA(cudaLaunchKernelEx(&config, merge_kernel<1>, args, rule));
  } else {
    TS_CUDA(cudaLaunchKernelEx(&config, merge_kernel<Config::kChains>, args, rule));
  }
}

}  // namespace tessera::cuda

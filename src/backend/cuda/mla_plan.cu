// mla_plan: divides one step's decode attention over the multiprocessors. One thread block; lengths in, plan
// out.
//
// In   kv_rows [seqs] or query_rows [seqs, q_tokens]
// Out  parts   [parts]  non-empty ranges of work first, then empty ones
//      seqs    [seqs]   pieces and slots of each sequence
//      split   [1 + seqs]  how many sequences have more than one piece, and which, ascending
//
// Bound: latency. Two block-wide scans and one binary search a part; nothing walks the batch serially.
#include <algorithm>

#include "backend/cuda/mla_kernel.h"
#include "backend/cuda/overlap.cuh"

namespace tessera::cuda {
namespace {

struct Config {
  static constexpr int kThreads =
      1024;  // one thread a part, so this is also the most parts that a layout may have
  static constexpr int kWarps = kThreads / 32;
};

// Exclusive sum over the block; `total` receives the sum of all. scratch [33].
__device__ std::int32_t exclusive_sum(std::int32_t value, std::int32_t* scratch, std::int32_t* total) {
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  std::int32_t sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const std::int32_t other = __shfl_up_sync(~0U, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    std::int32_t warp_sum = scratch[lane];
    for (int step = 1; step < 32; step *= 2) {
      const std::int32_t other = __shfl_up_sync(~0U, warp_sum, step);
      if (lane >= step) warp_sum += other;
    }
    scratch[lane] = warp_sum;
  }
  __syncthreads();
  *total = scratch[Config::kWarps - 1];
  const std::int32_t before = warp > 0 ? scratch[warp - 1] : 0;
  __syncthreads();  // scratch may be reused
  return before + sum - value;
}

__device__ std::int32_t longest_rows(const std::int32_t* kv_rows, const std::int32_t* query_rows,
                                     std::int32_t q_tokens, std::int32_t seq) {
  if (!query_rows) return kv_rows[seq];
  std::int32_t most = 0;
  for (int token = 0; token < q_tokens; ++token) most = max(most, query_rows[seq * q_tokens + token]);
  return most;
}

__global__ void __launch_bounds__(Config::kThreads)
    plan_kernel(MlaPlanRule rule, const std::int32_t* kv_rows, const std::int32_t* query_rows,
                std::int32_t q_tokens, MlaPart* parts_out, MlaSeqPlan* seqs_out, std::int32_t* split_out) {
  extern __shared__ std::int32_t prefix[];  // [seqs + 1]
  __shared__ MlaPart parts[Config::kThreads];
  __shared__ std::int32_t scratch[Config::kWarps];
  __shared__ std::int32_t dearest_whole;
  __shared__ std::int32_t dearest_equal;

  const int thread = threadIdx.x;
  const int each = (rule.seqs + Config::kThreads - 1) / Config::kThreads;
  const int begin = min(thread * each, rule.seqs);
  const int end = min(begin + each, rule.seqs);
  if (thread == 0) dearest_whole = dearest_equal = 0;
  wait_for_previous();

  std::int32_t cost = 0;
  for (int seq = begin; seq < end; ++seq) {
    cost += mla_cost(rule, mla_tiles(longest_rows(kv_rows, query_rows, q_tokens, seq)));
    prefix[seq + 1] = cost;  // within this thread's run; completed below
  }
  std::int32_t total = 0;
  const std::int32_t before = exclusive_sum(cost, scratch, &total);
  for (int seq = begin; seq < end; ++seq) prefix[seq + 1] += before;
  if (thread == 0) prefix[0] = 0;
  __syncthreads();

  if (thread < rule.parts) atomicMax(&dearest_whole, mla_whole_cost(rule, prefix, thread));
  for (int seq = begin; seq < end; ++seq) {
    atomicMax(&dearest_equal, mla_equal_cost(rule, mla_tiles_of(rule, prefix[seq + 1] - prefix[seq])));
  }
  __syncthreads();
  const MlaCutting cutting = mla_choose_cutting(rule, prefix, dearest_whole, dearest_equal);
  MlaPart part{{rule.seqs, 0}, {rule.seqs, 0}};
  if (thread < rule.parts) {
    part = {mla_cut(rule, prefix, cutting, thread), mla_cut(rule, prefix, cutting, thread + 1)};
  }
  const bool filled = mla_before(part.begin, part.end);
  std::int32_t count = 0;
  const std::int32_t place = exclusive_sum(filled ? 1 : 0, scratch, &count);
  if (filled) parts[place] = part;
  __syncthreads();
  if (thread < rule.parts) {
    parts_out[thread] = thread < count ? parts[thread] : MlaPart{{rule.seqs, 0}, {rule.seqs, 0}};
  }

  std::int32_t fixed = 0;  // fixed splits of this thread's sequences
  if (rule.fixed_tiles > 0) {
    for (int seq = begin; seq < end; ++seq) {
      const std::int32_t tiles = mla_tiles_of(rule, prefix[seq + 1] - prefix[seq]);
      fixed += (tiles + rule.fixed_tiles - 1) / rule.fixed_tiles;
    }
  }
  std::int32_t fixed_total = 0;
  std::int32_t fixed_base = exclusive_sum(fixed, scratch, &fixed_total);
  std::int32_t split = 0;
  for (int seq = begin; seq < end; ++seq) {
    const std::int32_t tiles = mla_tiles_of(rule, prefix[seq + 1] - prefix[seq]);
    const MlaSeqPlan plan = mla_seq_plan(rule, parts, count, seq, tiles, fixed_base);
    fixed_base += plan.pieces;
    seqs_out[seq] = plan;
    split += plan.pieces > 1 ? 1 : 0;
  }
  std::int32_t split_total = 0;
  std::int32_t split_place = exclusive_sum(split, scratch, &split_total);
  for (int seq = begin; seq < end; ++seq) {
    if (seqs_out[seq].pieces > 1) split_out[1 + split_place++] = seq;
  }
  if (thread == 0) split_out[0] = split_total;
}

}  // namespace

void launch_mla_plan(const MlaDecodeLayout& layout, const MlaDecodeLengths& lengths, MlaPart* parts,
                     MlaSeqPlan* seqs, std::int32_t* split, cudaStream_t stream) {
  const MlaPlanRule rule{.seqs = layout.shape.seqs,
                         .parts = layout.parts,
                         .overhead = layout.piece_overhead,
                         .split_cost = layout.split_cost,
                         .fixed_tiles = layout.shape.fixed_split_tiles};
  const std::size_t shared = (static_cast<std::size_t>(rule.seqs) + 1) * sizeof(std::int32_t);
  static_assert((kMlaMaxSeqs + 1) * sizeof(std::int32_t) + sizeof(MlaPart) * Config::kThreads < 60 * 1024,
                "the prefix sums and the parts of the largest batch fit a block of any device since sm_80");
  if (shared > 24 * 1024) {  // with the 16 KiB of parts, over the 48 KiB that need no permission
    TS_CUDA(cudaFuncSetAttribute(plan_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared)));
  }
  launch_early(plan_kernel, {1, Config::kThreads, shared}, stream, rule, lengths.kv_rows, lengths.query_rows,
               layout.shape.q_tokens, parts, seqs, split);
}

}  // namespace tessera::cuda

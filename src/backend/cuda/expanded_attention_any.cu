#include "backend/cuda/device.h"
#include "backend/cuda/kv_rows.cuh"
#include "backend/cuda/mla_prefill.h"
#include "backend/cuda/running_softmax.cuh"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = 4;

// One block a row of the chunk; rows of no piece become zeros.
template <class T, KvFormat F>
__global__ void gather_kernel(AttentionBatch batch, KvLayer kv, const PrefillPiece* pieces,
                              std::int32_t count, T* latents) {
  const auto chunk_row = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t width = kv.shape.latent + kv.shape.rope;
  T* latent = latents + std::int64_t{chunk_row} * width;
  for (std::int32_t p = 0; p < count; ++p) {
    const std::int32_t at = chunk_row - pieces[p].chunk_row;
    if (at < 0 || at >= pieces[p].rows) continue;
    const unsigned char* row = kv_row(kv, kv_slot(kv, batch, pieces[p].seq, pieces[p].first_row + at));
    for (auto i = static_cast<std::int32_t>(threadIdx.x); i < width; i += kThreads) {
      latent[i] = narrow<T>(kv_value<F>(kv, row, i));
    }
    return;
  }
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < width; i += kThreads) latent[i] = narrow<T>(0.0F);
}

// One block a (token, head, piece).
template <class T, int kPer>
__global__ void __launch_bounds__(32 * kWarps) expanded_any_kernel(PrefillRun run) {
  extern __shared__ float shared[];
  const PrefillPiece piece = run.pieces[blockIdx.z];
  if (static_cast<std::int32_t>(blockIdx.x) >= piece.tokens) return;
  const std::int64_t token = piece.first_token + static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t head = blockIdx.y;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const PrefillShape& s = run.shape;
  const int dim = s.nope + s.rope;
  const std::int32_t visible = min(run.batch.visible_rows[token] - piece.first_row, piece.rows);
  const T* q = static_cast<const T*>(run.q.data) + token * run.q.stride + head * dim;
  T* out = static_cast<T*>(run.out.data) + token * run.out.stride + head * s.value;
  float* lse = run.lse + token * run.lse_stride + head;

  float query[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) query[j] = lane + 32 * j < dim ? widen(q[lane + 32 * j]) * run.scale : 0.0F;
  RunningRow<kPer> row;
  if (warp == 0 && piece.first_row > 0 && *lse != -INFINITY) {  // what earlier rounds have found
    row.top = *lse;
    row.sum = 1.0F;
#pragma unroll
    for (int j = 0; j < kPer; ++j) row.acc[j] = lane + 32 * j < s.value ? widen(out[lane + 32 * j]) : 0.0F;
  }
  for (std::int32_t r = warp; r < visible; r += kWarps) {
    const std::int64_t at = piece.chunk_row + r;
    const T* key = static_cast<const T*>(run.keys) + (at * s.heads + head) * s.nope;
    const T* rope = static_cast<const T*>(run.latents) + at * (s.latent + s.rope) + s.latent;
    const T* value = static_cast<const T*>(run.values) + (at * s.heads + head) * s.value;
    float score = 0;
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int d = lane + 32 * j;
      if (d < dim) score += query[j] * widen(d < s.nope ? key[d] : rope[d - s.nope]);
    }
    row.add(warp_sum(score), lane, s.value, [&](int d) { return widen(value[d]); });
  }
  __syncthreads();  // warp 0 has read what it will overwrite; all warps meet here
  merge_warps(row, s.value, shared);
  if (warp != 0) return;
  const bool empty = row.sum == 0.0F;
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    if (lane + 32 * j < s.value) out[lane + 32 * j] = narrow<T>(empty ? 0.0F : row.acc[j] / row.sum);
  }
  if (lane == 0) *lse = empty ? -INFINITY : row.top + logf(row.sum);
}

}  // namespace

void launch_gather_latents(const PrefillRun& run, cudaStream_t stream) {
  if (run.round.rows == 0) return;
  with_activation(run.q.dtype, [&]<class T>(T) {
    with_kv_format(run.kv.format, [&]<KvFormat F>() {
      gather_kernel<T, F><<<static_cast<unsigned>(run.round.rows), kThreads, 0, stream>>>(
          run.batch, run.kv, run.pieces, run.round.pieces, static_cast<T*>(run.latents));
      TS_CUDA(cudaGetLastError());
    });
  });
}

void launch_expanded_attention_any(const PrefillRun& run, cudaStream_t stream) {
  const PrefillShape& s = run.shape;
  constexpr int kPer = 8;
  TS_CHECK(s.nope + s.rope <= 32 * kPer && s.value <= 32 * kPer, s.nope, s.rope, s.value);
  with_activation(run.q.dtype, [&]<class T>(T) {
    const dim3 grid(static_cast<unsigned>(run.round.most_tokens), static_cast<unsigned>(s.heads),
                    static_cast<unsigned>(run.round.pieces));
    const std::size_t bytes = static_cast<std::size_t>(kWarps * (2 + s.value)) * 4;
    expanded_any_kernel<T, kPer><<<grid, 32 * kWarps, bytes, stream>>>(run);
    TS_CUDA(cudaGetLastError());
  });
}

}  // namespace tessera::cuda

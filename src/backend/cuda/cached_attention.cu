#include "backend/cuda/attention.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kv_rows.cuh"
#include "backend/cuda/running_softmax.cuh"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kWarps = 8;

template <class T, KvFormat F, int kPer>
__global__ void __launch_bounds__(32 * kWarps)
    cached_kernel(CachedHeads shape, Rows<const T> q, AttentionBatch batch, KvLayer kv, Rows<T> out,
                  Rows<float> lse) {
  extern __shared__ float shared[];
  const auto head = static_cast<std::int32_t>(blockIdx.x);
  const auto token = static_cast<std::int32_t>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int32_t seq = sequence_of(batch, token);
  const std::int32_t visible = batch.visible_rows[token];
  const auto kv_head = static_cast<std::int32_t>(head / (shape.heads / shape.kv_heads));
  const std::int32_t key_first = kv_head * shape.key_dim;
  const std::int32_t value_first = shape.value_first + kv_head * shape.value_dim;

  float query[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int d = lane + 32 * j;
    query[j] =
        d < shape.key_dim ? widen(q.row(token)[std::int64_t{head} * shape.key_dim + d]) * shape.scale : 0.0F;
  }
  RunningRow<kPer> row;
  for (std::int32_t r = warp; r < visible; r += kWarps) {
    const unsigned char* cached = kv_row(kv, kv_slot(kv, batch, seq, r));
    float score = 0;
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int d = lane + 32 * j;
      if (d < shape.key_dim) score += query[j] * kv_value<F>(kv, cached, key_first + d);
    }
    row.add(warp_sum(score), lane, shape.value_dim,
            [&](int d) { return kv_value<F>(kv, cached, value_first + d); });
  }
  merge_warps(row, shape.value_dim, shared);
  if (warp != 0) return;
  const bool empty = row.sum == 0.0F;
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int d = lane + 32 * j;
    if (d < shape.value_dim) {
      out.row(token)[std::int64_t{head} * shape.value_dim + d] =
          narrow<T>(empty ? 0.0F : row.acc[j] / row.sum);
    }
  }
  if (lane == 0 && lse.data != nullptr) {
    lse.row(token)[head] = empty ? -INFINITY : row.top + logf(row.sum);
  }
}

}  // namespace

void launch_cached_attention(const CachedHeads& shape, const Tensor& q, const AttentionBatch& batch,
                             const KvLayer& kv, const Tensor& out, const Tensor& lse, cudaStream_t stream) {
  if (batch.tokens == 0) return;
  constexpr int kWidest = 32 * 18;
  TS_CHECK(shape.key_dim <= kWidest && shape.value_dim <= kWidest, shape.key_dim, shape.value_dim);
  with_activation(q.dtype, [&]<class T>(T) {
    with_kv_format(kv.format, [&]<KvFormat F>() {
      const std::size_t bytes = static_cast<std::size_t>(kWarps * (2 + shape.value_dim)) * 4;
      const auto run = [&](auto kernel) {
        constexpr std::int32_t kMostTokens = 65535;
        TS_CHECK(batch.tokens <= kMostTokens, batch.tokens);
        const dim3 grid(static_cast<unsigned>(shape.heads), static_cast<unsigned>(batch.tokens));
        kernel<<<grid, 32 * kWarps, bytes, stream>>>(shape, rows_of<const T>(q), batch, kv, rows_of<T>(out),
                                                     rows_of<float>(lse));
        TS_CUDA(cudaGetLastError());
      };
      if (shape.key_dim <= 32 * 4 && shape.value_dim <= 32 * 4) {
        run(cached_kernel<T, F, 4>);
      } else {
        run(cached_kernel<T, F, 18>);
      }
    });
  });
}

}  // namespace tessera::cuda

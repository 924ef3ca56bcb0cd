#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/partial_attention.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 128;

template <class T>
struct PartRows {
  const char* first;
  std::int64_t step;    // bytes from part to part
  std::int64_t stride;  // elements from row to row
  std::int64_t count;
  __device__ const T* row(std::int64_t part, std::int64_t r) const {
    return reinterpret_cast<const T*>(first + part * step) + r * stride;
  }
};
template <class T>
PartRows<T> rows_of_parts(const Parts& parts) {
  return {static_cast<const char*>(parts.first.data), parts.step, parts.first.stride, parts.count};
}

// log of the sum over parts of exp(lse); -inf when no part has rows.
__device__ float total_of(const PartRows<float>& lses, std::int64_t token, std::int64_t head) {
  float peak = -INFINITY;
  for (std::int64_t p = 0; p < lses.count; ++p) peak = fmaxf(peak, lses.row(p, token)[head]);
  if (peak == -INFINITY) return peak;
  float sum = 0;
  for (std::int64_t p = 0; p < lses.count; ++p) sum += expf(lses.row(p, token)[head] - peak);
  return peak + logf(sum);
}

// One block a (head, token). `out` may be the first part, `lse` that part's.
template <class T>
__global__ void merge_kernel(PartRows<T> outs, PartRows<float> lses, std::int64_t dim, Rows<T> out,
                             Rows<float> lse) {
  const std::int64_t head = blockIdx.x;
  const std::int64_t token = blockIdx.y;
  const float total = total_of(lses, token, head);
  for (std::int64_t i = threadIdx.x; i < dim; i += kThreads) {
    float sum = 0;
    for (std::int64_t p = 0; p < outs.count; ++p) {
      const float own = lses.row(p, token)[head];
      if (own == -INFINITY) continue;  // its output may hold anything, and 0 x NaN is NaN
      sum += expf(own - total) * widen(outs.row(p, token)[head * dim + i]);
    }
    out.row(token)[head * dim + i] = narrow<T>(sum);
  }
  __syncthreads();  // all have read the first part's lse
  if (threadIdx.x == 0 && lse.data != nullptr) lse.row(token)[head] = total;
}

template <class T>
__global__ void weigh_kernel(PartRows<float> lses, std::int64_t own, std::int64_t dim, Rows<T> x) {
  const std::int64_t head = blockIdx.x;
  const std::int64_t token = blockIdx.y;
  const float part = lses.row(own, token)[head];
  const bool empty = part == -INFINITY;
  const float weight = empty ? 0.0F : expf(part - total_of(lses, token, head));
  for (std::int64_t i = threadIdx.x; i < dim; i += kThreads) {
    T& value = x.row(token)[head * dim + i];
    value = narrow<T>(empty ? 0.0F : weight * widen(value));
  }
}

template <class Unit>
__global__ void copy_blocks_kernel(const Unit* pool, const std::int32_t* blocks, std::int64_t units,
                                   Unit* out) {
  const Unit* from = pool + std::int64_t{blocks[blockIdx.x]} * units;
  Unit* to = out + std::int64_t{blockIdx.x} * units;
  for (std::int64_t i = threadIdx.x; i < units; i += kThreads) to[i] = from[i];
}

dim3 grid_of_heads(std::int64_t heads, std::int64_t tokens) {
  constexpr std::int64_t kMostTokens = 65535;
  TS_CHECK(tokens <= kMostTokens, tokens);
  return dim3(static_cast<unsigned>(heads), static_cast<unsigned>(tokens));
}

}  // namespace

void launch_merge_partials(const Parts& outs, const Parts& lses, std::int64_t heads, const Tensor& out,
                           const Tensor& lse, cudaStream_t stream) {
  if (out.rows == 0 || heads == 0) return;
  with_activation(out.dtype, [&]<class T>(T) {
    merge_kernel<T><<<grid_of_heads(heads, out.rows), kThreads, 0, stream>>>(
        rows_of_parts<T>(outs), rows_of_parts<float>(lses), out.cols / heads, rows_of<T>(out),
        rows_of<float>(lse));
    TS_CUDA(cudaGetLastError());
  });
}

void launch_weigh_partial(const Parts& lses, std::int64_t own, std::int64_t heads, const Tensor& x,
                          cudaStream_t stream) {
  if (x.rows == 0 || heads == 0) return;
  with_activation(x.dtype, [&]<class T>(T) {
    weigh_kernel<T><<<grid_of_heads(heads, x.rows), kThreads, 0, stream>>>(rows_of_parts<float>(lses), own,
                                                                           x.cols / heads, rows_of<T>(x));
    TS_CUDA(cudaGetLastError());
  });
}

void launch_copy_blocks(const KvLayer& kv, const std::int32_t* blocks, std::int64_t count, void* out,
                        cudaStream_t stream) {
  if (count == 0) return;
  const std::int64_t bytes = kv.block_size * kv.row_bytes;
  const auto run = [&]<class Unit>(Unit) {
    copy_blocks_kernel<Unit><<<static_cast<unsigned>(count), kThreads, 0, stream>>>(
        static_cast<const Unit*>(kv.data), blocks, bytes / static_cast<std::int64_t>(sizeof(Unit)),
        static_cast<Unit*>(out));
    TS_CUDA(cudaGetLastError());
  };
  if (bytes % 16 == 0) {
    run(uint4{});
  } else {
    run(std::uint8_t{});
  }
}

}  // namespace tessera::cuda

#include "backend/cuda/attention.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kv_rows.cuh"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 128;
constexpr std::int32_t kGroup = 128;
// The smallest group maximum whose scale is still a normal f32.
constexpr float kTiny = 448.0F * 1.17549435e-38F;

__device__ std::uint8_t narrow_fp8(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }

template <class T, KvFormat F>
__device__ void write_values(const T* values, std::int32_t count, const KvLayer& kv, unsigned char* to) {
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < count; i += kThreads) {
    const float value = widen(values[i]);
    if constexpr (F == KvFormat::kF32) reinterpret_cast<float*>(to)[i] = value;
    if constexpr (F == KvFormat::kBF16) reinterpret_cast<bf16*>(to)[i] = narrow<bf16>(value);
    if constexpr (F == KvFormat::kFp8) to[i] = narrow_fp8(value / kv.scale);
  }
}

// One warp a group of 128 latent values.
template <class T>
__device__ void write_groups(const T* latent, std::int32_t count, unsigned char* row) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  for (std::int32_t g = static_cast<std::int32_t>(threadIdx.x) / 32; g < count / kGroup; g += kThreads / 32) {
    float value[4];
    float largest = kTiny;
    for (int i = 0; i < 4; ++i) {
      value[i] = widen(latent[g * kGroup + 32 * i + lane]);
      largest = fmaxf(largest, fabsf(value[i]));
    }
    const float scale = warp_max(largest) / 448.0F;
    for (int i = 0; i < 4; ++i) row[g * kGroup + 32 * i + lane] = narrow_fp8(value[i] / scale);
    if (lane == 0) reinterpret_cast<float*>(row + count)[g] = scale;
  }
}

template <class T, KvFormat F>
__global__ void write_kernel(Rows<const T> first, std::int32_t first_count, Rows<const T> second,
                             std::int32_t second_count, const std::int64_t* slots, KvLayer kv) {
  const std::int64_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  unsigned char* row = static_cast<unsigned char*>(kv.data) + slot * kv.row_bytes;
  if constexpr (F == KvFormat::kFp8Grouped) {
    write_groups(first.row(blockIdx.x), first_count, row);
    write_values<T, KvFormat::kBF16>(second.row(blockIdx.x), second_count, kv,
                                     row + first_count + first_count / kGroup * 4);
  } else {
    constexpr int kBytes = F == KvFormat::kF32 ? 4 : F == KvFormat::kBF16 ? 2 : 1;
    write_values<T, F>(first.row(blockIdx.x), first_count, kv, row);
    write_values<T, F>(second.row(blockIdx.x), second_count, kv, row + std::int64_t{first_count} * kBytes);
  }
}

__global__ void token_tables_kernel(AttentionBatch batch, std::int32_t block_size, std::int32_t first_token,
                                    std::int32_t* tables) {
  const std::int32_t token = first_token + static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t seq = sequence_of(batch, token);
  const std::int32_t rows = batch.visible_rows[token];
  const std::int32_t blocks = (rows + block_size - 1) / block_size;
  for (auto b = static_cast<std::int32_t>(threadIdx.x); b < blocks; b += kThreads) {
    tables[std::int64_t{blockIdx.x} * batch.max_blocks + b] =
        batch.block_table[std::int64_t{seq} * batch.max_blocks + b];
  }
}

}  // namespace

void launch_write_kv(const Tensor& first, const Tensor& second, const AttentionBatch& batch,
                     const KvLayer& kv, cudaStream_t stream) {
  if (batch.tokens == 0) return;
  with_activation(first.dtype, [&]<class T>(T) {
    with_kv_format(kv.format, [&]<KvFormat F>() {
      write_kernel<T, F><<<static_cast<unsigned>(batch.tokens), kThreads, 0, stream>>>(
          rows_of<const T>(first), static_cast<std::int32_t>(first.cols), rows_of<const T>(second),
          static_cast<std::int32_t>(second.cols), batch.slots, kv);
      TS_CUDA(cudaGetLastError());
    });
  });
}

void launch_token_tables(const AttentionBatch& batch, std::int32_t block_size, std::int32_t first_token,
                         std::int32_t tokens, std::int32_t* tables, cudaStream_t stream) {
  token_tables_kernel<<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(batch, block_size, first_token,
                                                                              tables);
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda

#include "backend/cuda/attention.h"
#include "backend/cuda/device.h"
#include "backend/cuda/kv_rows.cuh"
#include "backend/cuda/overlap.cuh"
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

// One block, one row of the cache.
template <class T, KvFormat F>
__device__ void write_row(const T* first, std::int32_t first_count, const T* second,
                          std::int32_t second_count, const KvLayer& kv, std::int64_t slot) {
  unsigned char* row = static_cast<unsigned char*>(kv.data) + slot * kv.row_bytes;
  if constexpr (F == KvFormat::kFp8Grouped) {
    write_groups(first, first_count, row);
    write_values<T, KvFormat::kBF16>(second, second_count, kv, row + first_count + first_count / kGroup * 4);
  } else {
    constexpr int kBytes = F == KvFormat::kF32 ? 4 : F == KvFormat::kBF16 ? 2 : 1;
    write_values<T, F>(first, first_count, kv, row);
    write_values<T, F>(second, second_count, kv, row + std::int64_t{first_count} * kBytes);
  }
}

template <class T, KvFormat F>
__global__ void write_kernel(Rows<const T> first, std::int32_t first_count, Rows<const T> second,
                             std::int32_t second_count, const std::int64_t* slots, KvLayer kv) {
  wait_for_previous();
  const std::int64_t slot = slots[blockIdx.x];
  if (slot < 0) return;
  write_row<T, F>(first.row(blockIdx.x), first_count, second.row(blockIdx.x), second_count, kv, slot);
}

struct RotaryAngles {
  const float* cos;
  const float* sin;
  std::int64_t positions;
  std::int32_t pairs;
};

// Block (token, 0) makes and writes the token's row, blocks (token, 1) and on rotate its queries.
template <class T, KvFormat F>
__global__ void store_mla_kernel(Rows<T> latent, std::int32_t width, Rows<T> rope_key, Rows<T> q_rope,
                                 Rows<T> q_rotated, std::int32_t heads, const float* norm, float eps,
                                 RotaryAngles angles, const std::int32_t* positions,
                                 const std::int64_t* slots, KvLayer kv) {
  extern __shared__ __align__(16) unsigned char memory[];  // the row in T
  __shared__ float partial[kThreads / 32];
  wait_for_previous();
  const std::int64_t token = blockIdx.x;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int64_t position = positions[token];
  const bool is_inside = position >= 0 && position < angles.positions;  // else a padded row: left as it is
  const auto rotate = [&](const T* from, T* to, std::int32_t pair) {
    const std::int64_t at = (is_inside ? position : 0) * angles.pairs + pair;
    rotate_pair(from[2 * pair], from[2 * pair + 1], is_inside ? angles.cos[at] : 1.0F,
                is_inside ? angles.sin[at] : 0.0F, to[2 * pair], to[2 * pair + 1]);
  };
  if (blockIdx.y > 0) {
    const std::int32_t i = static_cast<std::int32_t>(blockIdx.y - 1) * kThreads + thread;
    if (i >= heads * angles.pairs) return;
    const std::int64_t row = token * heads + i / angles.pairs;
    rotate(q_rope.row(row), q_rotated.row(row), i % angles.pairs);
    return;
  }
  T* row = reinterpret_cast<T*>(memory);
  T* from = latent.row(token);
  float sum = 0;
  for (std::int32_t i = thread; i < width; i += kThreads) {
    const float value = widen(from[i]);
    sum += value * value;
  }
  sum = warp_sum(sum);
  if (thread % 32 == 0) partial[thread / 32] = sum;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < kThreads / 32; ++w) total += partial[w];
  const float factor = 1.0F / sqrtf(total / static_cast<float>(width) + eps);
  for (std::int32_t i = thread; i < width; i += kThreads) {
    row[i] = narrow<T>(widen(from[i]) * factor * norm[i]);
    from[i] = row[i];
  }
  T* key = rope_key.row(token);
  for (std::int32_t pair = thread; pair < angles.pairs; pair += kThreads) {
    rotate(key, row + width, pair);
    key[2 * pair] = row[width + 2 * pair];
    key[2 * pair + 1] = row[width + 2 * pair + 1];
  }
  __syncthreads();
  const std::int64_t slot = slots[token];
  if (slot < 0) return;
  write_row<T, F>(row, width, row + width, 2 * angles.pairs, kv, slot);
}

__global__ void token_tables_kernel(AttentionBatch batch, std::int32_t block_size, std::int32_t first_token,
                                    std::int32_t* tables) {
  wait_for_previous();
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
      launch_early(write_kernel<T, F>, {static_cast<unsigned>(batch.tokens), kThreads}, stream,
                   rows_of<const T>(first), static_cast<std::int32_t>(first.cols), rows_of<const T>(second),
                   static_cast<std::int32_t>(second.cols), batch.slots, kv);
    });
  });
}

void launch_store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps, const RopeTable& table,
                      const AttentionBatch& batch, const KvLayer& kv, cudaStream_t stream) {
  if (batch.tokens == 0) return;
  const auto heads = static_cast<std::int32_t>(rows.heads);
  const auto pairs = static_cast<std::int32_t>(table.pairs);
  const dim3 grid(static_cast<unsigned>(batch.tokens), 1 + grid_of(std::int64_t{heads} * pairs, kThreads));
  const auto width = static_cast<std::int32_t>(rows.latent.cols);
  const auto shared = static_cast<std::size_t>((width + 2 * pairs) * bytes_of(rows.latent.dtype));
  const RotaryAngles angles{table.cos, table.sin, table.positions, pairs};
  with_activation(rows.latent.dtype, [&]<class T>(T) {
    with_kv_format(kv.format, [&]<KvFormat F>() {
      launch_early(store_mla_kernel<T, F>, {grid, kThreads, shared}, stream, rows_of<T>(rows.latent), width,
                   rows_of<T>(rows.rope_key), rows_of<T>(rows.q_rope), rows_of<T>(rows.q_rotated), heads,
                   latent_norm.data, eps, angles, batch.positions, batch.slots, kv);
    });
  });
}

void launch_token_tables(const AttentionBatch& batch, std::int32_t block_size, std::int32_t first_token,
                         std::int32_t tokens, std::int32_t* tables, cudaStream_t stream) {
  launch_early(token_tables_kernel, {static_cast<unsigned>(tokens), kThreads}, stream, batch, block_size,
               first_token, tables);
}

}  // namespace tessera::cuda

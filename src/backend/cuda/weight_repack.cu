#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/weight_repack.h"
#include "backend/cuda_layout/weight_layout.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kThreads = 256;

// One thread moves eight columns of one row, which every format keeps together.
__global__ void repack_kernel(RepackRows w) {
  const std::int64_t eighths = (w.cols + 7) / 8;
  const std::int64_t item = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (item >= w.rows * eighths) return;
  const std::int64_t from_row = item / eighths;
  const std::int64_t row = w.first_row + from_row;
  const std::int64_t col = item % eighths * 8;
  const std::int64_t here = w.cols - col < 8 ? w.cols - col : 8;
  auto* to = static_cast<unsigned char*>(w.to_data);
  switch (w.format) {
    case WeightFormat::kF32: {
      const float* values = static_cast<const float*>(w.data) + from_row * w.cols + col;
      for (std::int64_t i = 0; i < here; ++i) {
        if (w.to_bf16) {
          *reinterpret_cast<bf16*>(to + bf16_offset(row, col + i, w.padded_cols)) = narrow<bf16>(values[i]);
        } else {
          reinterpret_cast<float*>(to)[row * w.cols + col + i] = values[i];
        }
      }
      return;
    }
    case WeightFormat::kBF16: {
      const auto* values = static_cast<const std::uint16_t*>(w.data) + from_row * w.cols + col;
      auto* piece = reinterpret_cast<std::uint16_t*>(to + bf16_offset(row, col, w.padded_cols));
      for (std::int64_t i = 0; i < here; ++i) piece[i] = values[i];
      return;
    }
    case WeightFormat::kFp8Block128: {
      const auto* values = static_cast<const unsigned char*>(w.data) + from_row * w.cols + col;
      for (std::int64_t i = 0; i < here; ++i) to[fp8_offset(row, col + i, w.padded_cols)] = values[i];
      if (col % 128 == 0) {
        static_cast<float*>(w.to_scale)[fp8_scale_index(row, col, w.padded_cols)] = static_cast<const float*>(
            w.scale)[(w.scale_row_offset + from_row) / 128 * w.scale_cols + col / 128];
      }
      return;
    }
    case WeightFormat::kInt4Group32: {
      const std::uint32_t codes =
          static_cast<const std::uint32_t*>(w.data)[from_row * (w.cols / 8) + col / 8];
      std::uint32_t word = 0;
      for (int i = 0; i < 8; ++i) word |= (codes >> (4 * i) & 15U) << int4_shift(i);
      *reinterpret_cast<std::uint32_t*>(to + int4_word_offset(row, col, w.padded_cols)) = word;
      if (col % 32 == 0) {
        const bf16 scale = static_cast<const bf16*>(w.scale)[from_row * w.scale_cols + col / 32];
        const bf16 stored = narrow<bf16>(widen(scale) * kInt4ScaleUp);
        static_cast<bf16*>(w.to_scale)[int4_scale_index(row, col, w.padded_cols)] = stored;
        const std::uint32_t size = __bfloat16_as_ushort(stored) & 0x7fffU;
        if (size > *static_cast<volatile std::uint32_t*>(w.largest_scale)) atomicMax(w.largest_scale, size);
      }
      return;
    }
  }
}

}  // namespace

void launch_repack(const RepackRows& work, cudaStream_t stream) {
  const std::int64_t items = work.rows * ((work.cols + 7) / 8);
  if (items == 0) return;
  TS_CHECK(work.format != WeightFormat::kInt4Group32 || work.cols % 32 == 0, work.cols);
  repack_kernel<<<grid_of(items, kThreads), kThreads, 0, stream>>>(work);
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda

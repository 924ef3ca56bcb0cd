// How weights lie in device memory, and how the matrix products see them.
//
// bf16, fp8 and int4 matrices are cut into pieces that one warp loads in whole 512-byte lines, 16 bytes a
// lane, and that are operands of mma.m16n8k16 as they come. Lane (g, t) = (lane / 4, lane % 4) of a load of 8
// rows holds row g; t says which columns:
//
//   bf16  [rows / 8][cols / 32] of 8 rows x 32 columns: columns 8 t .. 8 t + 7 at (t * 8 + g) * 16 bytes,
//         so that 8 rows x 16 bytes are the core matrices of wgmma as well
//   fp8   [rows / 8][cols / 64] of 8 rows x 64 columns: columns 8 t .. + 7 and 32 + 8 t .. + 7;
//         the four bytes of a word are columns 0, 2, 1, 3 (what unpacks to pairs without a shuffle)
//   int4  [rows / 8][cols / 128] of 8 rows x 128 columns: word j holds columns 32 j + 8 t .. + 7;
//         nibble i is column 2 i, nibble i + 4 column 2 i + 1; codes are offset by 8
//
// Rows are padded to a multiple of 16, columns to a multiple of 128. Scales of the padding are 0.
//   fp8 scales   f32  [rows / 8][cols / 128][8]: each row has its own copy of its block's scale
//   int4 scales  bf16 [rows / 8][cols / 128][8][4]: of the four groups of 32 columns, times kInt4ScaleUp
// Behind the int4 scales of a stack lie the bits of the largest one without its sign (kLargestScaleBytes),
// for products that take scales to a type of smaller range. f32 matrices (only where activations are f32) are
// plain [rows, cols].
#pragma once

#include <cstdint>

#include "checkpoint/host_matrix.h"

#ifdef __CUDACC__
#define TS_BOTH __host__ __device__
#else
#define TS_BOTH
#endif

namespace tessera::cuda {

// Stored int4 scales are the checkpoint's times this: what unpacks fastest is code / 64.
inline constexpr float kInt4ScaleUp = 64.0F;

inline constexpr std::int64_t kLargestScaleBytes = 16;
inline constexpr std::int64_t kRowPadding = 16;
inline constexpr std::int64_t kColPadding = 128;

TS_BOTH constexpr std::int64_t padded(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// One matrix of a stack, or of all of them by the strides.
struct TiledWeight {
  const void* data = nullptr;
  const void* scale = nullptr;
  const std::uint32_t* largest_scale = nullptr;  // int4: of the stack, as stored, the bits of its size
  WeightFormat format = WeightFormat::kBF16;
  std::int32_t out = 0;           // rows that count
  std::int32_t in = 0;            // columns that count
  std::int32_t padded_in = 0;     // of the layout
  std::int32_t count = 1;         // matrices
  std::int64_t data_stride = 0;   // bytes from one matrix to the next
  std::int64_t scale_stride = 0;  // likewise
};

struct WeightBytes {
  std::int64_t data = 0;   // of one matrix, scales not counted
  std::int64_t scale = 0;  // of one matrix
};
TS_BOTH constexpr WeightBytes weight_bytes(WeightFormat format, std::int64_t out, std::int64_t in) {
  const std::int64_t rows = padded(out, kRowPadding);
  const std::int64_t cols = padded(in, kColPadding);
  switch (format) {
    case WeightFormat::kF32:
      return {out * in * 4, 0};
    case WeightFormat::kBF16:
      return {rows * cols * 2, 0};
    case WeightFormat::kFp8Block128:
      return {rows * cols, rows * (cols / 128) * 4};
    case WeightFormat::kInt4Group32:
      return {rows * cols / 2, rows * (cols / 32) * 2};
  }
  return {};
}

// Byte of (row, col) for bf16 and fp8; of the word that holds the nibble for int4.
TS_BOTH constexpr std::int64_t bf16_offset(std::int64_t row, std::int64_t col, std::int64_t cols) {
  return ((row / 8 * (cols / 8) + col / 8) * 8 + row % 8) * 16 + col % 8 * 2;
}
TS_BOTH constexpr std::int64_t fp8_offset(std::int64_t row, std::int64_t col, std::int64_t cols) {
  const std::int64_t tile = row / 8 * (cols / 64) + col / 64;
  const std::int64_t lane = row % 8 * 4 + col % 32 / 8;
  const std::int64_t place = col % 4;  // columns 0, 1, 2, 3 lie at bytes 0, 2, 1, 3
  return tile * 512 + lane * 16 + col % 64 / 32 * 8 + col % 8 / 4 * 4 +
         (place == 1   ? 2
          : place == 2 ? 1
                       : place);
}
TS_BOTH constexpr std::int64_t int4_word_offset(std::int64_t row, std::int64_t col, std::int64_t cols) {
  const std::int64_t tile = row / 8 * (cols / 128) + col / 128;
  const std::int64_t lane = row % 8 * 4 + col % 32 / 8;
  return tile * 512 + lane * 16 + col % 128 / 32 * 4;
}
TS_BOTH constexpr int int4_shift(std::int64_t col) {
  return static_cast<int>(4 * (col % 8 / 2 + (col % 2) * 4));
}
// Elements, not bytes.
TS_BOTH constexpr std::int64_t fp8_scale_index(std::int64_t row, std::int64_t col, std::int64_t cols) {
  return (row / 8 * (cols / 128) + col / 128) * 8 + row % 8;
}
TS_BOTH constexpr std::int64_t int4_scale_index(std::int64_t row, std::int64_t col, std::int64_t cols) {
  return ((row / 8 * (cols / 128) + col / 128) * 8 + row % 8) * 4 + col % 128 / 32;
}

}  // namespace tessera::cuda

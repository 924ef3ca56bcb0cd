// Row formats of the swapped kernel: how rows, as they are stored and copied, become the A operands of its
// products.
//
// A tile of 64 tokens is copied in boxes of 64 tokens x kBoxRow bytes, swizzled over the width of the box.
// Both kinds of operand are made in registers:
//   keys    A [64 tokens, k]: a lane loads 16 bytes of its two tokens. A sum over dimensions does not mind
//   their order,
//           so a lane's neighbouring bytes serve consecutive steps, and the queries are stored in the same
//           order (query_place).
//   values  A [64 dimensions, tokens]: a transposing load. With 8-bit rows it moves pairs of dimensions,
//   whose even and
//           odd ones become rows l / 4 and l / 4 + 8 of a warp's 16: the order of the result's rows is free
//           too (dimension).
#pragma once

#include "backend/cuda/mla_numbers_sm90.cuh"
#include "backend/cuda/sm90.cuh"

namespace tessera::cuda::sm90 {

struct SwappedBf16 {
  using Operand = Bf16;
  static constexpr int kRowBytes = 1152;
  static constexpr int kBoxRow = 128;  // bytes of a row in one box: 64 dimensions
  static constexpr int kRopeBoxes = 1;
  static constexpr bool kGrouped = false;
};
struct SwappedFp8 {
  using Operand = F16;  // e4m3 fits f16 exactly
  static constexpr int kRowBytes = 576;
  static constexpr int kBoxRow = 64;
  static constexpr int kRopeBoxes = 1;
  static constexpr bool kGrouped = false;
};
struct SwappedFp8Math {  // queries and probabilities are rounded to e4m3 too, and multiplied as they are
  using Operand = E4m3;
  static constexpr int kRowBytes = 576;
  static constexpr int kBoxRow = 64;
  static constexpr int kRopeBoxes = 1;
  static constexpr bool kGrouped = false;
};
struct SwappedFp8Grouped {  // 512 e4m3, four f32 scales of 128 each, 64 bf16 rope
  using Operand = F16;      // value x scale: eight times finer than bf16
  static constexpr int kRowBytes = 656;
  static constexpr int kBoxRow = 64;
  static constexpr int kRopeBoxes = 2;
  static constexpr bool kGrouped = true;
};

template <class Rows>
inline constexpr bool kIsMath = std::is_same_v<typename Rows::Operand, E4m3>;
template <class Rows>
inline constexpr bool kIsBf16 = std::is_same_v<typename Rows::Operand, Bf16>;

// One box of a tile.
template <class Rows>
struct Box {
  static constexpr int kBytes = kMlaBlockSize * Rows::kBoxRow;
  // Where 16-byte column `column` of token `row` lies.
  static __device__ __forceinline__ std::uint32_t at(int row, int column) {
    const int swizzled = Rows::kBoxRow == 128 ? column ^ (row & 7) : column ^ (row / 2 & 3);
    return static_cast<std::uint32_t>(row * Rows::kBoxRow + 16 * swizzled);
  }
};

// Steps of one wgmma in a chunk of 64 dimensions, and in half a tile (32 tokens).
template <class Rows>
inline constexpr int kChunkSteps = kIsMath<Rows> ? 2 : 4;
template <class Rows>
inline constexpr int kHalfSteps = kIsMath<Rows> ? 1 : 2;

// Where queries of dimensions 8 j + 2 w, + 1 (8-bit: 8 j + 4 w .. + 3) of a chunk lie in its row: 16-byte
// column, and 4-byte slot within it.
struct QueryPlace {
  int column;
  int slot;
};
template <class Rows>
__device__ __forceinline__ QueryPlace query_place(int chunk, int j, int w) {
  if (kIsMath<Rows>) return {2 * (j % 2) + w, j / 2};
  if (Rows::kGrouped && chunk == kMlaLatent / 64) return {4 * (j / 4) + w, j % 4};
  return {4 * (j % 2) + w, j / 2};
}

// The rows row0 and row0 + 8 of one chunk, as stored, and as operands. `keys` is the chunk's first box.
template <class Rows>
struct Keys {
  uint4 word[2][2];  // row; for 128 bytes of a row, which half of a lane's 32

  __device__ __forceinline__ void load(std::uint32_t keys, int chunk, int row0, int quad) {
    const bool wide = Rows::kBoxRow == 128 || (Rows::kGrouped && chunk == kMlaLatent / 64);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row0 + 8 * r;
      if (Rows::kBoxRow == 128) {
        word[r][0] = load_shared_4(keys + Box<Rows>::at(row, 2 * quad));
        word[r][1] = load_shared_4(keys + Box<Rows>::at(row, 2 * quad + 1));
      } else {
        word[r][0] = load_shared_4(keys + Box<Rows>::at(row, quad));
        if (wide) word[r][1] = load_shared_4(keys + Box<Rows>::kBytes + Box<Rows>::at(row, quad));
      }
    }
  }

  // Operands of half of the chunk's steps. scale: of the two rows, as pairs of f16; grouped rows only.
  __device__ __forceinline__ void operands(std::uint32_t (&a)[kChunkSteps<Rows> / 2][4], int chunk, int half,
                                           const std::uint32_t (&scale)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::uint32_t words[8] = {word[r][0].x, word[r][0].y, word[r][0].z, word[r][0].w,
                                      word[r][1].x, word[r][1].y, word[r][1].z, word[r][1].w};
#pragma unroll
      for (int i = 0; i < kChunkSteps<Rows> / 2; ++i) {
        const int step = kChunkSteps<Rows> / 2 * half + i;
        if constexpr (kIsMath<Rows> || kIsBf16<Rows>) {
          a[i][r] = words[2 * step];
          a[i][2 + r] = words[2 * step + 1];
        } else if (Rows::kGrouped && chunk == kMlaLatent / 64) {
          a[i][r] = halves_of_bf16(words[2 * step]);
          a[i][2 + r] = halves_of_bf16(words[2 * step + 1]);
        } else {
          a[i][r] = low_halves_of_e4m3(words[step]);
          a[i][2 + r] = high_halves_of_e4m3(words[step]);
          if constexpr (Rows::kGrouped) {
            a[i][r] = times(a[i][r], scale[r]);
            a[i][2 + r] = times(a[i][2 + r], scale[r]);
          }
        }
      }
    }
  }
};

// Values of 64 dimensions (one box) and 32 tokens (`half` of the tile), as stored, and as operands.
template <class Rows>
struct Values {
  static constexpr int kLoads = kIsBf16<Rows> ? 2 : 1;
  std::uint32_t word[kLoads][4];

  __device__ __forceinline__ void load(std::uint32_t box, int half, int warp, int lane) {
    if constexpr (kIsBf16<Rows>) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {  // dimensions 0..7 and 8..15 of 8 tokens, then of the next 8
        const int token = 32 * half + 16 * step + 8 * (lane / 16) + lane % 8;
        load_matrices_transposed(word[step], box + Box<Rows>::at(token, 2 * warp + lane / 8 % 2));
      }
    } else {
      load_matrices_transposed(word[0], box + Box<Rows>::at(32 * half + lane, warp));
    }
  }

  // scale: of tokens 8 j + 2 (l % 4), + 1 of the half, as a pair of f16; grouped rows only.
  __device__ __forceinline__ void operands(std::uint32_t (&a)[kHalfSteps<Rows>][4],
                                           const std::uint32_t (&scale)[4]) const {
    if constexpr (kIsBf16<Rows>) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[step][i] = word[step][i];
      }
    } else if constexpr (kIsMath<Rows>) {
      // Four tokens of one dimension: 2 q, 2 q + 1 of 8 tokens and of the next 8. P is stored in that order.
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        a[0][2 * i] = __byte_perm(word[0][2 * i], word[0][2 * i + 1], 0x6420);
        a[0][2 * i + 1] = __byte_perm(word[0][2 * i], word[0][2 * i + 1], 0x7531);
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t both =
            __byte_perm(word[0][j], 0, 0x3120);  // the even dimension of two tokens, the odd
        std::uint32_t even = low_halves_of_e4m3(both);
        std::uint32_t odd = high_halves_of_e4m3(both);
        if constexpr (Rows::kGrouped) {
          even = times(even, scale[j]);
          odd = times(odd, scale[j]);
        }
        a[j / 2][2 * (j % 2)] = even;
        a[j / 2][2 * (j % 2) + 1] = odd;
      }
    }
  }
};

// The dimension, of a warp's 16, that row l / 4 + 8 e of the result holds.
template <class Rows>
__device__ __forceinline__ int dimension(int lane, int e) {
  return kIsBf16<Rows> ? lane / 4 + 8 * e : 2 * (lane / 4) + e;
}

}  // namespace tessera::cuda::sm90

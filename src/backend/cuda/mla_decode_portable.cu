// mla_decode_portable: attention of 1..8 query tokens a sequence over the latent KV cache, with mma.sync:
// sm_80 and newer.
//
// In, out: as mla_decode_sm90.cuh. Tiles of 16 or 32 query rows (token-major: token * heads + head).
//
// Bound: memory, while query rows are few: 16 rows do 35 kFLOP a KV row, 30 FLOP/byte on bf16 rows. That is
// why Hopper uses this form too, for bf16 rows of 9 to 16 query rows.
// Rows stay in shared memory as they are stored; fp8 becomes f16 or bf16 in registers, on the way into the
// products:
// - Scores: a column of the product is a token and its 16 bytes of e4m3 are one step of 16 dimensions. A lane
//   gets bytes 4 q .. 4 q + 3, where the instruction wants dimensions 2 q, 2 q + 1, 2 q + 8, 2 q + 9; a sum
//   does not mind the order, so the query fragments are loaded in the same order.
// - Values: a transposing load of 16-bit units brings pairs of neighbouring dimensions of two tokens. Even
//   dimensions form one product, odd ones the next, so a lane ends with four neighbouring output columns.
// Roles: eight warps. Scores: warp w sums a quarter of the dimensions (128 of the latent, 16 of rope; w % 4)
// for half the tokens of the tile (w / 4), its query fragments in registers; the quarters meet in shared
// memory. Softmax: all threads, a few columns each. Values: warp w owns output columns 64 w .. 64 w + 63.
// Scales of 656-byte rows: constant for a warp's 128 dimensions, so scores are scaled after the sum, in f32,
// and values by scaling the token's probability.
// Shared memory stays under 99 KB, all that a block may have on sm_86, sm_89 and sm_120.
#include "backend/cuda/mla_portable_rows.cuh"
#include "backend/cuda/overlap.cuh"

namespace tessera::cuda {
namespace {

using namespace portable;

template <class Rows, int kM>  // kM: 16-row tiles of queries
struct Config {
  static constexpr int kThreads = 256;
  static constexpr int kQueryRows = 16 * kM;
  static constexpr bool kLong = Rows::kLongTiles && kM == 1;
  static constexpr int kTokens = kLong ? 64 : 32;  // a tile
  static constexpr int kStages = kLong ? 2 : Rows::kStages32;
  static constexpr int kTiles = kMlaBlockSize / kTokens;  // a cache block
  static constexpr int kQuarters = 4;                     // of the dimensions
  static constexpr int kSteps = 9;                      // of 16 dimensions, a quarter: 8 of latent, 1 of rope
  static constexpr int kColumnTiles = kTokens / 2 / 8;  // 8-token tiles of one warp
  static constexpr int kStageBytes = kTokens * Rows::kStride;
  static constexpr int kScoreStride =
      kTokens + 8;  // f32; keeps the stores of a fragment off each other's banks
  static constexpr int kPStride = 2 * kTokens + 16;         // bytes
  static constexpr int kLanesARow = kThreads / kQueryRows;  // in softmax
  static constexpr int kPairs = kTokens / 2 / kLanesARow;   // of columns, a thread
  static constexpr float kRaise = 8.0F;                     // as in mla_decode_sm90.cuh

  static constexpr int kScores = kStages * kStageBytes;  // [quarters, rows, tokens] f32
  static constexpr int kP = kScores + 4 * kQuarters * kQueryRows * kScoreStride;  // [rows, tokens] 16 bit
  static constexpr int kShrink = kP + kQueryRows * kPStride;                      // [rows] f32
  static constexpr int kTop = kShrink + 4 * kQueryRows;                           // [rows] f32, at the end
  static constexpr int kSum = kTop + 4 * kQueryRows;                              // [rows] f32, at the end
  static constexpr int kRowScale = kSum + 4 * kQueryRows;                         // [rows] f32, f16 queries
  static constexpr int kSharedBytes = kRowScale + 4 * kQueryRows;
  static_assert(kSharedBytes <= 99 * 1024);
  static_assert(kPairs >= 1 && kStageBytes % 16 == 0);
};

template <class Rows, int kM>
struct Block {
  using C = Config<Rows, kM>;
  using Operand = typename Rows::Operand;

  const MlaArgs& args;
  unsigned char* shared;
  const std::uint32_t base;
  const int thread = threadIdx.x;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int quad = lane % 4;
  const int quarter = warp % 4;
  const int first_column = warp / 4 * (C::kTokens / 2);  // of the tile's tokens, in scoring

  __device__ float* floats(int offset) const { return reinterpret_cast<float*>(shared + offset); }
  __device__ std::uint32_t stage(int s) const { return base + s * C::kStageBytes; }

  // First dimension of step `step` of this warp's quarter.
  __device__ __forceinline__ int dimension(int step) const {
    return step < C::kSteps - 1 ? 128 * quarter + 16 * step : kMlaLatent + 16 * quarter;
  }
  // Whether the rows hold e4m3 at that step.
  static __device__ constexpr bool narrow(int step) {
    return Rows::kFp8 && (!Rows::kGrouped || step < C::kSteps - 1);
  }

  // Asks for tile `tile` (of kTokens) of the sequence, which lies in `block`; rows that nobody sees are
  // zeros.
  __device__ __forceinline__ void fetch(int s, std::int32_t block, std::int32_t tile,
                                        std::int32_t most) const {
    constexpr int kPieces = Rows::kRowBytes / 16;
    const std::int32_t first = tile % C::kTiles * C::kTokens;
    const auto* from = static_cast<const unsigned char*>(args.kv) +
                       (static_cast<std::int64_t>(block) * kMlaBlockSize + first) * Rows::kRowBytes;
    for (int i = thread; i < C::kTokens * kPieces; i += C::kThreads) {
      const int row = i / kPieces;
      const bool seen = tile * C::kTokens + row < most;
      copy_row_part(stage(s) + row * Rows::kStride + i % kPieces * 16, from + (seen ? 16 * i : 0), seen);
    }
  }

  // f16 only: the power of two that brings each query row's largest value to [1, 2).
  __device__ __forceinline__ void find_row_scales(const std::uint16_t* q, std::int32_t rows_left) const {
    for (int row = warp; row < C::kQueryRows; row += C::kThreads / 32) {
      float top = 0.0F;
      if (row < rows_left) {
        for (int i = lane; i < kMlaDim; i += 32) {
          top = fmaxf(top, fabsf(__uint_as_float(static_cast<std::uint32_t>(q[row * kMlaDim + i]) << 16)));
        }
      }
      for (int step = 16; step > 0; step /= 2) top = fmaxf(top, __shfl_xor_sync(~0U, top, step));
      int exponent = static_cast<int>(__float_as_uint(top) >> 23) - 127;
      exponent = top > 0.0F ? min(max(exponent, -100), 100) : 0;
      if (lane == 0)
        floats(C::kRowScale)[row] = __uint_as_float(static_cast<std::uint32_t>(127 + exponent) << 23);
    }
    __syncthreads();
  }

  // Query fragments of this warp's quarter.
  __device__ __forceinline__ void load_queries(std::uint32_t (&q)[kM][C::kSteps][4],
                                               const std::uint16_t* rows, std::int32_t rows_left) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + 8 * half + lane / 4;
        float down = 1.0F;
        if constexpr (std::is_same_v<Operand, F16>)
          down = 1.0F / floats(C::kRowScale)[row];  // exact: a power of two
#pragma unroll
        for (int step = 0; step < C::kSteps; ++step) {
          const std::uint16_t* at = rows + row * kMlaDim + dimension(step);
          std::uint32_t low = 0;
          std::uint32_t high = 0;
          if (row < rows_left) {
            low = *reinterpret_cast<const std::uint32_t*>(at + (narrow(step) ? 4 * quad : 2 * quad));
            high = *reinterpret_cast<const std::uint32_t*>(at + (narrow(step) ? 4 * quad + 2 : 2 * quad + 8));
          }
          if constexpr (std::is_same_v<Operand, F16>) {
            low = pack(F16{}, __uint_as_float(low << 16) * down, __uint_as_float(low & 0xFFFF0000U) * down);
            high =
                pack(F16{}, __uint_as_float(high << 16) * down, __uint_as_float(high & 0xFFFF0000U) * down);
          }
          q[m][step][half] = low;
          q[m][step][2 + half] = high;
        }
      }
    }
  }

  // This warp's part of the scores, to shared memory.
  __device__ __forceinline__ void score(const std::uint32_t (&q)[kM][C::kSteps][4], int s) const {
    float sums[kM][C::kColumnTiles][4] = {};
    const std::uint32_t rows = stage(s) + first_column * Rows::kStride;
    const int matrix = lane / 8;
#pragma unroll
    for (int pair = 0; pair < C::kColumnTiles / 2; ++pair) {
      const std::uint32_t row = rows + (16 * pair + 8 * (matrix / 2) + lane % 8) * Rows::kStride;
      if constexpr (!Rows::kFp8) {
#pragma unroll
        for (int step = 0; step < C::kSteps; ++step) {
          std::uint32_t k[4];
          load_matrices(k, row + 2 * dimension(step) + 16 * (matrix % 2));
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            multiply(Operand{}, sums[m][2 * pair], q[m][step], k[0], k[1]);
            multiply(Operand{}, sums[m][2 * pair + 1], q[m][step], k[2], k[3]);
          }
        }
      } else {
#pragma unroll
        for (int step = 0; step < C::kSteps - 1; step += 2) {
          std::uint32_t k[4];  // column tile 0: this step, the next; column tile 1: the same
          load_matrices(k, row + dimension(step) + 16 * (matrix % 2));
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const std::uint32_t b0 = operands_of_e4m3(Operand{}, k[i]);
            const std::uint32_t b1 = operands_of_e4m3(Operand{}, k[i] >> 16);
#pragma unroll
            for (int m = 0; m < kM; ++m)
              multiply(Operand{}, sums[m][2 * pair + i / 2], q[m][step + i % 2], b0, b1);
          }
        }
        if constexpr (Rows::kGrouped) {
#pragma unroll
          for (int tile = 2 * pair; tile < 2 * pair + 2; ++tile) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int token = first_column + 8 * tile + 2 * quad + e;
              const float scale = floats(s * C::kStageBytes + token * Rows::kStride + kMlaLatent)[quarter];
#pragma unroll
              for (int m = 0; m < kM; ++m) {
                sums[m][tile][e] *= scale;
                sums[m][tile][e + 2] *= scale;
              }
            }
          }
          std::uint32_t k[4];
          load_matrices(k, row + kMlaLatent + 16 + 32 * quarter + 16 * (matrix % 2));
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            multiply(Operand{}, sums[m][2 * pair], q[m][C::kSteps - 1], k[0], k[1]);
            multiply(Operand{}, sums[m][2 * pair + 1], q[m][C::kSteps - 1], k[2], k[3]);
          }
        } else {
          std::uint32_t k[4];  // one step only: matrices 1 and 3 repeat 0 and 2
          load_matrices(k, row + dimension(C::kSteps - 1));
#pragma unroll
          for (int i = 0; i < 4; i += 2) {
            const std::uint32_t b0 = operands_of_e4m3(Operand{}, k[i]);
            const std::uint32_t b1 = operands_of_e4m3(Operand{}, k[i] >> 16);
#pragma unroll
            for (int m = 0; m < kM; ++m)
              multiply(Operand{}, sums[m][2 * pair + i / 2], q[m][C::kSteps - 1], b0, b1);
          }
        }
      }
    }
    float* scores = floats(C::kScores) + quarter * C::kQueryRows * C::kScoreStride;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int tile = 0; tile < C::kColumnTiles; ++tile) {
        float* at = scores + (16 * m + lane / 4) * C::kScoreStride + first_column + 8 * tile + 2 * quad;
        *reinterpret_cast<float2*>(at) = make_float2(sums[m][tile][0], sums[m][tile][1]);
        *reinterpret_cast<float2*>(at + 8 * C::kScoreStride) =
            make_float2(sums[m][tile][2], sums[m][tile][3]);
      }
    }
  }

  // O += P V for this warp's 64 columns. For fp8, o[m][2 i] holds even and o[m][2 i + 1] odd columns of 16.
  __device__ __forceinline__ void multiply_values(float (&o)[kM][8][4], int s) const {
    const float* shrink = floats(C::kShrink);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      const float c0 = shrink[16 * m + lane / 4];
      const float c1 = shrink[16 * m + lane / 4 + 8];
      if (__any_sync(~0U, c0 != 1.0F || c1 != 1.0F)) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          o[m][i][0] *= c0;
          o[m][i][1] *= c0;
          o[m][i][2] *= c1;
          o[m][i][3] *= c1;
        }
      }
    }
    const int matrix = lane / 8;
#pragma unroll
    for (int step = 0; step < C::kTokens / 16; ++step) {
      std::uint32_t p[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        load_matrices(p[m], base + C::kP + (16 * m + lane % 16) * C::kPStride + 32 * step + 16 * (lane / 16));
      }
      if constexpr (Rows::kGrouped) {  // the scale of a token's group of 128 dimensions goes into its
                                       // probability
        float scale[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int token = 16 * step + 2 * quad + e % 2 + 8 * (e / 2);
          scale[e] = floats(s * C::kStageBytes + token * Rows::kStride + kMlaLatent)[warp / 2];
        }
#pragma unroll
        for (int m = 0; m < kM; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {  // p[0], p[1]: tokens 2 q, 2 q + 1; p[2], p[3]: eight later
            const float low = __uint_as_float(p[m][i] << 16) * scale[i / 2 * 2];
            const float high = __uint_as_float(p[m][i] & 0xFFFF0000U) * scale[i / 2 * 2 + 1];
            p[m][i] = pack(Bf16{}, low, high);
          }
        }
      }
      const std::uint32_t row = stage(s) + (16 * step + 8 * (matrix % 2) + lane % 8) * Rows::kStride;
      if constexpr (!Rows::kFp8) {
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
          std::uint32_t v[4];
          load_matrices_transposed(v, row + 2 * (64 * warp + 16 * pair) + 16 * (matrix / 2));
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            multiply(Operand{}, o[m][2 * pair], p[m], v[0], v[1]);
            multiply(Operand{}, o[m][2 * pair + 1], p[m], v[2], v[3]);
          }
        }
      } else {
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          std::uint32_t v[4];  // 16 dimensions: early and late tokens; the next 16: the same
          load_matrices_transposed(v, row + 64 * warp + 32 * pair + 16 * (matrix / 2));
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const std::uint32_t early =
                __byte_perm(v[2 * i], 0, 0x3120);  // even dimension of both tokens, then odd
            const std::uint32_t late = __byte_perm(v[2 * i + 1], 0, 0x3120);
            const std::uint32_t even0 = operands_of_e4m3(Operand{}, early);
            const std::uint32_t even1 = operands_of_e4m3(Operand{}, late);
            const std::uint32_t odd0 = operands_of_e4m3(Operand{}, early >> 16);
            const std::uint32_t odd1 = operands_of_e4m3(Operand{}, late >> 16);
#pragma unroll
            for (int m = 0; m < kM; ++m) {
              multiply(Operand{}, o[m][4 * pair + 2 * i], p[m], even0, even1);
              multiply(Operand{}, o[m][4 * pair + 2 * i + 1], p[m], odd0, odd1);
            }
          }
        }
      }
    }
  }

  __device__ __forceinline__ void run(std::int32_t part, std::int32_t first_row) const {
    const int total_rows = args.q_tokens * args.heads;
    const std::int32_t rows_left = total_rows - first_row;
    const int soft_row = thread / C::kLanesARow;  // this thread's row in softmax
    const int soft_lane = thread % C::kLanesARow;
    MlaWalk walk(args, part);
    MlaPiece piece;
    while (walk.next(args, piece)) {
      std::int32_t most = 0;
      for (int token = 0; token < args.q_tokens; ++token)
        most = max(most, visible_rows(args, piece.seq, token));
      const std::int32_t limit =
          visible_rows(args, piece.seq, min(first_row + soft_row, total_rows - 1) / args.heads);
      const std::int32_t* table = args.block_table + static_cast<std::int64_t>(piece.seq) * args.max_blocks;
      const auto* q_rows = static_cast<const std::uint16_t*>(args.q) +
                           (static_cast<std::int64_t>(piece.seq) * total_rows + first_row) * kMlaDim;
      const std::int32_t begin = piece.begin * C::kTiles;
      const std::int32_t end =
          min(piece.end * C::kTiles, (most + C::kTokens - 1) / C::kTokens);  // begin if empty

      __syncthreads();  // the piece before has been written
      for (int s = 0; s < C::kStages - 1; ++s) {
        if (begin + s < end) fetch(s, load_entry(table, (begin + s) / C::kTiles), begin + s, most);
        copies_commit();
      }
      float scale = args.scale_log2;
      if constexpr (std::is_same_v<Operand, F16>) {
        find_row_scales(q_rows, rows_left);
        scale *= floats(C::kRowScale)[soft_row];
      }
      std::uint32_t q[kM][C::kSteps][4];
      load_queries(q, q_rows, rows_left);
      float o[kM][8][4] = {};
      float top = -INFINITY;
      float sum = 0.0F;
      std::int32_t block = 0;  // of the tile to ask for next, read one round before it is used
      if (begin + C::kStages - 1 < end) block = load_entry(table, (begin + C::kStages - 1) / C::kTiles);

      for (std::int32_t tile = begin; tile < end; ++tile) {
        const int s = (tile - begin) % C::kStages;
        copies_wait<C::kStages - 2>();
        __syncthreads();  // the tile is there for all; the stage of the last one, its P and its scores are
                          // free
        if (tile + C::kStages - 1 < end) {
          fetch((tile - begin + C::kStages - 1) % C::kStages, block, tile + C::kStages - 1, most);
        }
        copies_commit();
        if (tile + C::kStages < end) block = load_entry(table, (tile + C::kStages) / C::kTiles);
        score(q, s);
        __syncthreads();

        float2 x[C::kPairs];
        float highest = -INFINITY;
#pragma unroll
        for (int i = 0; i < C::kPairs; ++i) {
          const int column = 2 * (soft_lane + C::kLanesARow * i);
          const float* at = floats(C::kScores) + soft_row * C::kScoreStride + column;
          x[i] = *reinterpret_cast<const float2*>(at);
#pragma unroll
          for (int part_sum = 1; part_sum < C::kQuarters; ++part_sum) {
            const float2 more =
                *reinterpret_cast<const float2*>(at + part_sum * C::kQueryRows * C::kScoreStride);
            x[i].x += more.x;
            x[i].y += more.y;
          }
          const std::int32_t token = tile * C::kTokens + column;
          x[i].x = token < limit ? x[i].x * scale : -INFINITY;
          x[i].y = token + 1 < limit ? x[i].y * scale : -INFINITY;
          highest = fmaxf(highest, fmaxf(x[i].x, x[i].y));
        }
#pragma unroll
        for (int step = C::kLanesARow / 2; step > 0; step /= 2) {
          highest = fmaxf(highest, __shfl_xor_sync(~0U, highest, step));
        }
        float shrink = 1.0F;
        if (highest > top + C::kRaise) {  // also while the maximum is still -inf
          shrink = exp2_fast(top - highest);
          top = highest;
        }
        if (soft_lane == 0) floats(C::kShrink)[soft_row] = shrink;
        const float shift = top == -INFINITY ? 0.0F : top;
        sum *= shrink;
#pragma unroll
        for (int i = 0; i < C::kPairs; ++i) {
          const float p0 = exp2_fast(x[i].x - shift);
          const float p1 = exp2_fast(x[i].y - shift);
          sum += p0 + p1;
          const int column = 2 * (soft_lane + C::kLanesARow * i);
          *reinterpret_cast<std::uint32_t*>(shared + C::kP + soft_row * C::kPStride + 2 * column) =
              pack(Operand{}, p0, p1);
        }
        __syncthreads();
        multiply_values(o, s);
      }
      copies_wait<0>();

#pragma unroll
      for (int step = C::kLanesARow / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
      if (soft_lane == 0) {
        floats(C::kSum)[soft_row] = sum;
        if (soft_row < rows_left) {
          const std::int64_t at =
              static_cast<std::int64_t>(piece.slot < 0 ? piece.seq : piece.slot) * total_rows + first_row +
              soft_row;
          (piece.slot < 0 ? args.lse : args.partial_lse)[at] =
              sum > 0.0F ? (top + __log2f(sum)) * 0.6931471805599453F : -INFINITY;
        }
      }
      __syncthreads();
      write(o, piece, first_row, rows_left);
    }
  }

  __device__ __forceinline__ void write(const float (&o)[kM][8][4], const MlaPiece& piece,
                                        std::int32_t first_row, std::int32_t rows_left) const {
    const int total_rows = args.q_tokens * args.heads;
    const bool wide = piece.slot >= 0 || args.out_f32;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * m + 8 * half + lane / 4;
        if (row >= rows_left) continue;
        const float sum = floats(C::kSum)[row];
        const float inverse = sum > 0.0F ? args.out_scale / sum : 0.0F;
        const std::int64_t at =
            (static_cast<std::int64_t>(piece.slot < 0 ? piece.seq : piece.slot) * total_rows + first_row +
             row) *
                kMlaLatent +
            64 * warp;
        float* wide_row = (piece.slot >= 0 ? args.partial_out : static_cast<float*>(args.out)) + at;
        auto* narrow_row = static_cast<__nv_bfloat16*>(args.out) + at;
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
          const float a0 = o[m][i][2 * half] * inverse;
          const float a1 = o[m][i][2 * half + 1] * inverse;
          const float b0 = o[m][i + 1][2 * half] * inverse;
          const float b1 = o[m][i + 1][2 * half + 1] * inverse;
          if constexpr (Rows::kFp8) {  // even columns in i, odd ones in i + 1
            const int column = 8 * i + 4 * quad;
            if (wide) {
              *reinterpret_cast<float4*>(wide_row + column) = make_float4(a0, b0, a1, b1);
            } else {
              *reinterpret_cast<uint2*>(narrow_row + column) =
                  make_uint2(pack(Bf16{}, a0, b0), pack(Bf16{}, a1, b1));
            }
          } else {
            const int column = 8 * i + 2 * quad;
            if (wide) {
              *reinterpret_cast<float2*>(wide_row + column) = make_float2(a0, a1);
              *reinterpret_cast<float2*>(wide_row + column + 8) = make_float2(b0, b1);
            } else {
              *reinterpret_cast<std::uint32_t*>(narrow_row + column) = pack(Bf16{}, a0, a1);
              *reinterpret_cast<std::uint32_t*>(narrow_row + column + 8) = pack(Bf16{}, b0, b1);
            }
          }
        }
      }
    }
  }
};

template <class Rows, int kM>
__global__ void __launch_bounds__(256, kM == 1 ? 2 : 1) decode_kernel(const __grid_constant__ MlaArgs args) {
  extern __shared__ __align__(128) unsigned char shared[];
  wait_for_previous();
  const Block<Rows, kM> block{args, shared, static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))};
  block.run(static_cast<std::int32_t>(blockIdx.y),
            static_cast<std::int32_t>(blockIdx.x) * Config<Rows, kM>::kQueryRows);
}

template <class Rows, int kM>
void launch(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream) {
  using C = Config<Rows, kM>;
  TS_CUDA(cudaFuncSetAttribute(decode_kernel<Rows, kM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               C::kSharedBytes));
  const dim3 grid(static_cast<unsigned>(layout.row_tiles), static_cast<unsigned>(layout.parts));
  launch_early(decode_kernel<Rows, kM>, {grid, C::kThreads, C::kSharedBytes}, stream, args);
}

template <class Rows>
void launch(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream) {
  if (layout.tile_rows == 16) {
    launch<Rows, 1>(layout, args, stream);
  } else {
    launch<Rows, 2>(layout, args, stream);
  }
}

}  // namespace

void launch_mla_decode_portable(const MlaDecodeLayout& layout, const MlaArgs& args, cudaStream_t stream) {
  switch (layout.shape.kv) {
    case KvFormat::kBF16:
      return launch<RowsBf16>(layout, args, stream);
    case KvFormat::kFp8:
      return launch<RowsFp8>(layout, args, stream);
    default:
      return launch<RowsFp8Grouped>(layout, args, stream);
  }
}

}  // namespace tessera::cuda

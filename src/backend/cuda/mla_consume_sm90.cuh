// A consuming warpgroup of the bf16 kernel: scores of its own tiles, softmax, and half of every tile's
// values. The idea: mla_decode_sm90.cuh.
#pragma once

#include "backend/cuda/mla_decode_sm90.cuh"

namespace tessera::cuda::sm90 {

// One consumer warpgroup. kGroup: which tiles it scores and which half of the columns it multiplies. kLate:
// score the own tile before multiplying the other's P (see the order note in the loop).
template <int kGroup, bool kLate>
struct Consumer {
  using Operand = Bf16;
  static constexpr int kOwnNamed = kGroup == 0 ? kPublished0 : kPublished1;
  static constexpr int kOtherNamed = kGroup == 0 ? kPublished1 : kPublished0;

  const MlaArgs& args;
  const Place place;
  const int warp = (threadIdx.x / 32) % 4;
  const int lane = threadIdx.x % 32;
  const int row0 = 16 * warp + lane / 4;  // this thread's rows of the tile are row0 and row0 + 8

  __device__ Consumer(const MlaArgs& a, const Place& p) : args(a), place(p) {}

  // S = Q K^T of the tile in `stage`, as its chunks arrive.
  __device__ __forceinline__ void score(float (&s)[32], int stage, std::uint32_t parity) const {
#pragma unroll
    for (int i = 0; i < Config::kChunks; ++i) {
      const int chunk = chunk_at(i);
      barrier_wait(place.full(stage, chunk), parity);
      wgmma_fence();  // needed once; one behind each wait loop keeps the compiler from adding its own
      const std::uint64_t q =
          wgmma_operand(place.q() + chunk * Config::kChunkBytes, Config::kSwizzleGroup, 16);
      const std::uint64_t k =
          wgmma_operand(place.stage(stage) + chunk * Config::kChunkBytes, Config::kSwizzleGroup, 16);
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma_ss<Operand, WgmmaB::kAlongK>(s, q + 2 * step, k + 2 * step,
                                           i + step > 0 ? 1 : 0);  // 16 columns are 32 bytes
      }
    }
    wgmma_commit();
  }

  // V of one of this consumer's two quarters.
  __device__ __forceinline__ std::uint64_t values(int stage, int part) const {
    return wgmma_operand(place.stage(stage) + (kGroup * Config::kHalfChunks + part * Config::kQuarterChunks) *
                                                  Config::kChunkBytes,
                         Config::kSwizzleGroup, Config::kChunkBytes);
  }
  static constexpr std::uint64_t kValueStep =
      16 * 128 / 16;  // 16 tokens, in the descriptor's units of 16 bytes

  __device__ __forceinline__ static void shrink_rows(float (&o)[2][64], float c0, float c1) {
    if (!__any_sync(~0U, c0 != 1.0F || c1 != 1.0F)) return;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      o[i / 16][4 * (i % 16)] *= c0;
      o[i / 16][4 * (i % 16) + 1] *= c0;
      o[i / 16][4 * (i % 16) + 2] *= c1;
      o[i / 16][4 * (i % 16) + 3] *= c1;
    }
  }

  __device__ __forceinline__ void release(int stage, int part) const {
    if (lane == 0) barrier_arrive(place.empty(stage, 2 * kGroup + part));
  }
  // Waits for the two groups of a multiplication and releases each quarter when it is done.
  __device__ __forceinline__ void finish_and_release(int stage) const {
    wgmma_wait<1>();
    release(stage, 0);
    wgmma_wait<0>();
    release(stage, 1);
  }

  struct RowState {
    float top0 = -INFINITY;  // running maximum, log2 domain; kept equal in both consumers
    float top1 = -INFINITY;
    float sum0 = 0.0F;  // over this thread's columns of the own tiles
    float sum1 = 0.0F;
  };

  // O += P V of a tile that the other warpgroup scored. Issues, does not wait.
  __device__ __forceinline__ void multiply_other(float (&o)[2][64], RowState& rows, int stage,
                                                 std::uint32_t parity, bool first) const {
    named_sync(kOtherNamed, Config::kConsumers);
    rows.top0 = load_shared(place.maximum(row0));
    rows.top1 = load_shared(place.maximum(row0 + 8));
    if (!first) {
      const float c0 = load_shared(place.shrink(stage, row0));
      const float c1 = load_shared(place.shrink(stage, row0 + 8));
      rows.sum0 *= c0;
      rows.sum1 *= c1;
      shrink_rows(o, c0, c1);
    }
    for (int chunk = 0; chunk < Config::kHalfChunks;
         ++chunk) {  // complete long ago; makes the copy's bytes ours too
      barrier_wait(place.full(stage, kGroup * Config::kHalfChunks + chunk), parity);
    }
    const std::uint64_t p = wgmma_operand(place.stage(stage) + Config::kRopeChunk * Config::kChunkBytes,
                                          Config::kSwizzleGroup, 16);
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::uint64_t v = values(stage, part);
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma_ss<Operand, WgmmaB::kAlongColumns>(o[part], p + 2 * step, v + step * kValueStep,
                                                 first && step == 0 ? 0 : 1);
      }
      wgmma_commit();
    }
  }

  // Softmax of the own tile, whose scores are complete; publishes P.
  __device__ __forceinline__ void publish(float (&s)[32], std::uint32_t (&p)[4][4], RowState& rows, float& c0,
                                          float& c1, int stage, std::int32_t first_token, std::int32_t limit0,
                                          std::int32_t limit1, std::int32_t most) const {
    if (first_token + Config::kTile > min(limit0, limit1)) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const std::int32_t token = first_token + 8 * i + 2 * (lane % 4);
        if (token >= limit0) s[4 * i] = -INFINITY;
        if (token + 1 >= limit0) s[4 * i + 1] = -INFINITY;
        if (token >= limit1) s[4 * i + 2] = -INFINITY;
        if (token + 1 >= limit1) s[4 * i + 3] = -INFINITY;
      }
    }
    float top0 = -INFINITY;
    float top1 = -INFINITY;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      top0 = fmaxf(top0, fmaxf(s[4 * i], s[4 * i + 1]));
      top1 = fmaxf(top1, fmaxf(s[4 * i + 2], s[4 * i + 3]));
    }
    top0 = fmaxf(top0, __shfl_xor_sync(~0U, top0, 1));
    top1 = fmaxf(top1, __shfl_xor_sync(~0U, top1, 1));
    top0 = fmaxf(top0, __shfl_xor_sync(~0U, top0, 2)) * args.scale_log2;
    top1 = fmaxf(top1, __shfl_xor_sync(~0U, top1, 2)) * args.scale_log2;
    c0 = 1.0F;
    c1 = 1.0F;
    if (top0 > rows.top0 + Config::kRaise) {  // also when the maximum is still -inf
      c0 = exp2_fast(rows.top0 - top0);
      rows.top0 = top0;
    }
    if (top1 > rows.top1 + Config::kRaise) {
      c1 = exp2_fast(rows.top1 - top1);
      rows.top1 = top1;
    }
    if (lane % 4 == 0) {
      store_shared(place.maximum(row0), rows.top0);
      store_shared(place.maximum(row0 + 8), rows.top1);
      store_shared(place.shrink(stage, row0), c0);
      store_shared(place.shrink(stage, row0 + 8), c1);
    }
    const float shift0 =
        rows.top0 == -INFINITY ? 0.0F : rows.top0;  // a row that sees nothing yet: exp2(-inf) = 0
    const float shift1 = rows.top1 == -INFINITY ? 0.0F : rows.top1;
    rows.sum0 *= c0;
    rows.sum1 *= c1;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      s[4 * i] = exp2_fast(fmaf(s[4 * i], args.scale_log2, -shift0));
      s[4 * i + 1] = exp2_fast(fmaf(s[4 * i + 1], args.scale_log2, -shift0));
      s[4 * i + 2] = exp2_fast(fmaf(s[4 * i + 2], args.scale_log2, -shift1));
      s[4 * i + 3] = exp2_fast(fmaf(s[4 * i + 3], args.scale_log2, -shift1));
      rows.sum0 += s[4 * i] + s[4 * i + 1];
      rows.sum1 += s[4 * i + 2] + s[4 * i + 3];
    }
    const int row = 16 * warp + lane % 16;
    const std::uint32_t at = place.stage(stage) + Config::kRopeChunk * Config::kChunkBytes + row * 128;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) p[step][i] = pack(Operand{}, s[8 * step + 2 * i], s[8 * step + 2 * i + 1]);
      store_matrices(at + (((2 * step + lane / 16) ^ (row & 7)) << 4), p[step]);
    }
    if (first_token + Config::kTile > most) {
      // Rows that nobody sees may hold anything, NaN too, and 0 x NaN is NaN: clear them.
      const int unseen = Config::kTile - (most - first_token);
      for (int i = threadIdx.x % 128; i < unseen * Config::kLatentChunks * 8; i += 128) {
        const int chunk_row = (most - first_token) + i / (Config::kLatentChunks * 8);
        const int column = i % (Config::kLatentChunks * 8);
        store_shared(
            place.stage(stage) + column / 8 * Config::kChunkBytes + chunk_row * 128 + column % 8 * 16,
            make_uint4(0, 0, 0, 0));
      }
      fence_async_proxy();
      named_sync(kGroup == 0 ? kGroup0 : kGroup1, 128);
    }
    fence_async_proxy();
    named_arrive(kOwnNamed, Config::kConsumers);
  }

  // O += P V of the own tile, P in registers. Issues, does not wait.
  __device__ __forceinline__ void multiply_own(float (&o)[2][64], const std::uint32_t (&p)[4][4], int stage,
                                               bool first) const {
    wgmma_fence();
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::uint64_t v = values(stage, part);
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma_rs<Operand, WgmmaB::kAlongColumns>(o[part], p[step], v + step * kValueStep,
                                                 first && step == 0 ? 0 : 1);
      }
      wgmma_commit();
    }
  }

  __device__ __forceinline__ void write(const float (&o)[2][64], const RowState& rows, const MlaPiece& piece,
                                        int piece_count, std::int32_t first_row) const {
    float sum0 = rows.sum0 + __shfl_xor_sync(~0U, rows.sum0, 1);
    float sum1 = rows.sum1 + __shfl_xor_sync(~0U, rows.sum1, 1);
    sum0 += __shfl_xor_sync(~0U, sum0, 2);
    sum1 += __shfl_xor_sync(~0U, sum1, 2);
    if (lane % 4 == 0) {
      store_shared(place.sum(piece_count, kGroup, row0), sum0);
      store_shared(place.sum(piece_count, kGroup, row0 + 8), sum1);
    }
    named_sync(kConsumersMeet, Config::kConsumers);
    const int total_rows = args.q_tokens * args.heads;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + 8 * half;
      if (first_row + row >= total_rows) continue;
      const float sum =
          load_shared(place.sum(piece_count, 0, row)) + load_shared(place.sum(piece_count, 1, row));
      const float top = half == 0 ? rows.top0 : rows.top1;
      const float inverse = sum > 0.0F ? args.out_scale / sum : 0.0F;
      const std::int64_t at =
          static_cast<std::int64_t>(piece.slot < 0 ? piece.seq : piece.slot) * total_rows + first_row + row;
      if (kGroup == 0 && lane % 4 == 0) {
        const float lse = sum > 0.0F ? (top + __log2f(sum)) * 0.6931471805599453F : -INFINITY;
        (piece.slot < 0 ? args.lse : args.partial_lse)[at] = lse;
      }
      const std::int64_t to = at * kMlaLatent + 256 * kGroup + 2 * (lane % 4);
      if (piece.slot >= 0 || args.out_f32) {
        float* out = (piece.slot >= 0 ? args.partial_out : static_cast<float*>(args.out)) + to;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          *reinterpret_cast<float2*>(out + 8 * i) = make_float2(
              o[i / 16][4 * (i % 16) + 2 * half] * inverse, o[i / 16][4 * (i % 16) + 2 * half + 1] * inverse);
        }
      } else {
        auto* out = static_cast<__nv_bfloat16*>(args.out) + to;
#pragma unroll
        for (int i = 0; i < 32; ++i) {
          *reinterpret_cast<std::uint32_t*>(out + 8 * i) =
              pack(Bf16{}, o[i / 16][4 * (i % 16) + 2 * half] * inverse,
                   o[i / 16][4 * (i % 16) + 2 * half + 1] * inverse);
        }
      }
    }
  }

  // A sequence of which no query token sees a row: 0 and -inf. Never split.
  __device__ inline void write_empty(const MlaPiece& piece, std::int32_t first_row) const {
    const int total_rows = args.q_tokens * args.heads;
    const std::int64_t first = static_cast<std::int64_t>(piece.seq) * total_rows + first_row;
    const int rows = min(Config::kRows, total_rows - first_row);
    const int words = rows * kMlaLatent / (args.out_f32 ? 4 : 8);
    auto* out = static_cast<uint4*>(args.out) + first * kMlaLatent / (args.out_f32 ? 4 : 8);
    for (int i = threadIdx.x; i < words; i += Config::kConsumers) out[i] = make_uint4(0, 0, 0, 0);
    for (int i = threadIdx.x; i < rows; i += Config::kConsumers) args.lse[first + i] = -INFINITY;
  }

  __device__ inline void run(std::int32_t part, std::int32_t first_row) const {
    const int total_rows = args.q_tokens * args.heads;
    MlaWalk walk(args, part);
    MlaPiece piece;
    std::uint32_t done = 0;  // tiles of earlier pieces: gives stage and phase
    std::uint32_t pieces = 0;
    float o[2][64];
    float s[32];
    std::uint32_t p[4][4];
    while (walk.next(args, piece)) {
      const std::int32_t most = most_rows(args, piece.seq);
      if (most == 0) {
        write_empty(piece, first_row);
        continue;
      }
      const std::int32_t last_row =
          total_rows - 1;  // rows past the end compute something and are not written
      const std::int32_t limit0 = visible_rows(args, piece.seq, min(first_row + row0, last_row) / args.heads);
      const std::int32_t limit1 =
          visible_rows(args, piece.seq, min(first_row + row0 + 8, last_row) / args.heads);
      barrier_wait(place.q_full(), pieces & 1);
      RowState rows;
      const int tiles = piece.end - piece.begin;
      int tile = (done & 1) == kGroup ? 0 : 1;  // own tiles are every other one
      for (; tile < tiles; tile += 2) {
        const int stage = kGroup;
        const std::uint32_t parity = ((done + tile) / 2) & 1;
        const std::uint32_t other_parity = ((done + tile - 1) / 2) & 1;
        // Early: the other's tile is multiplied and released first. When KV comes from device memory, the own
        // tile arrives much later, and holding the other's buffer until then would leave the memory idle.
        // Late: the own tile is scored first. When the tensor cores are the bound, it is there, and its
        // scores run while the other warpgroup takes exponentials.
        if constexpr (kLate) {
          score(s, stage, parity);
          if (tile > 0) {
            multiply_other(o, rows, stage ^ 1, other_parity, tile == 1);
          } else {
            wgmma_commit();  // the same number of groups on both ways lets the compiler follow them
            wgmma_commit();
          }
          wgmma_wait<2>();  // the scores
        } else {
          if (tile > 0) {
            multiply_other(o, rows, stage ^ 1, other_parity, tile == 1);
            finish_and_release(stage ^ 1);
          }
          score(s, stage, parity);
          wgmma_wait<0>();
        }
        float c0;
        float c1;
        publish(s, p, rows, c0, c1, stage, (piece.begin + tile) * Config::kTile, limit0, limit1, most);
        if constexpr (kLate) {
          wgmma_wait<0>();
          if (tile > 0) {
            release(stage ^ 1, 0);
            release(stage ^ 1, 1);
          }
        }
        if (tile > 0) shrink_rows(o, c0, c1);
        multiply_own(o, p, stage, tile == 0);
        finish_and_release(stage);
      }
      if (tile == tiles) {  // the last tile was the other's
        const std::uint32_t other_parity = ((done + tile - 1) / 2) & 1;
        multiply_other(o, rows, kGroup ^ 1, other_parity, tile == 1);
        finish_and_release(kGroup ^ 1);
      }
      if (lane == 0) barrier_arrive(place.q_empty());
      write(o, rows, piece, pieces, first_row);
      done += tiles;
      ++pieces;
    }
  }
};

}  // namespace tessera::cuda::sm90

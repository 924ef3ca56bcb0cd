// A multiplying warpgroup of the swapped kernel: O^T += V^T P^T for 256 of the 512 dimensions; writes the
// result.
//
// Four products of 64 dimensions. A lane's results: dimensions 64 m + 16 warp + dimension(lane, e / 2), query
// rows 8 i + 2 (l % 4) + e % 2 in o[m][4 i + e].
#pragma once

#include "backend/cuda/mla_swapped_sm90.cuh"

namespace tessera::cuda::sm90 {

template <class Rows, int kN>
struct Multiplier {
  using C = SwappedConfig<Rows, kN>;
  using Operand = typename Rows::Operand;
  static constexpr int kSums = C::kSums;
  static constexpr int kColumnTiles = kN / 8;
  static constexpr int kBoxBytes = Box<Rows>::kBytes;
  static constexpr int kProducts = kMlaLatent / 2 / 64;
  static constexpr int kSteps = kHalfSteps<Rows>;
  static constexpr int kRing = 2;  // operands of so many half products are in flight

  const MlaArgs& args;
  const SwappedPlace<C> place;
  const int group;
  const int warp = (threadIdx.x / 32) % 4;
  const int lane = threadIdx.x % 32;
  const int quad = lane % 4;

  __device__ Multiplier(const MlaArgs& a, const SwappedPlace<C>& p, int g) : args(a), place(p), group(g) {}

  __device__ __forceinline__ void multiply(float (&o)[kProducts][kSums], std::uint32_t stage_at, int parity,
                                           bool first) const {
    Values<Rows> values;
    std::uint32_t a[kRing][kSteps][4];
    std::uint32_t scale[4] = {};
    const std::uint32_t boxes = stage_at + group * kProducts * kBoxBytes;
    const std::uint64_t p0 = wgmma_operand_64(place.p(stage_at, parity, 0, kBoxBytes));
    const std::uint64_t p1 =
        kIsMath<Rows> ? p0 + 2
                      : wgmma_operand_64(place.p(stage_at, parity, 1, kBoxBytes));  // + 32 bytes of k
    const std::uint64_t p[2] = {pinned(p0), pinned(p1)};
    values.load(boxes, 0, warp, lane);
#pragma unroll
    for (int n = 0; n < 2 * kProducts; ++n) {
      const int product = n / 2;
      const int half = n % 2;
      if (n >= kRing) wgmma_wait<kRing - 1>();
      if constexpr (Rows::kGrouped) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t at = place.scales(stage_at, kBoxBytes) + 16 * (32 * half + 8 * j + 2 * quad) +
                                   4 * (2 * group + product / 2);
          scale[j] = pack(F16{}, load_shared(at), load_shared(at + 16));
        }
      }
      values.operands(a[n % kRing], scale);
      if (n + 1 < 2 * kProducts) values.load(boxes + (n + 1) / 2 * kBoxBytes, (n + 1) % 2, warp, lane);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        wgmma_rs<Operand, WgmmaB::kAlongK>(o[product], a[n % kRing][k], wgmma_advance(p[half], 32 * k),
                                           first && half + k == 0 ? 0 : 1);
      }
      wgmma_commit();
    }
  }

  // The sums of P over the tile's tokens, for the eight query rows of this warp. As P is stored, so rounded:
  // what is divided was made of the same numbers.
  static constexpr int kAdders = kColumnTiles;  // warps of both groups
  __device__ __forceinline__ int adder() const { return 4 * group + warp; }
  __device__ __forceinline__ void add_up(float (&total)[4], std::uint32_t stage_at, int parity) const {
    if (adder() >= kAdders) return;
    const int row = 8 * adder() + lane % 8;
#pragma unroll
    for (int half = 0; half < C::kPHalves; ++half) {
      std::uint32_t b[4];
      load_matrices(
          b, place.p(stage_at, parity, half, kBoxBytes) + row * 64 + ((lane / 8 ^ (row / 2 & 3)) << 4));
      add_columns(Operand{}, total, b[0], b[1]);
      add_columns(Operand{}, total, b[2], b[3]);
    }
  }

  __device__ __forceinline__ void shrink(float (&o)[kProducts][kSums], float (&total)[4], int parity) const {
    if (adder() < kAdders) {
      const float2 c = load_shared_2(place.shrink(parity, 8 * adder() + 2 * quad));
      total[0] *= c.x;
      total[1] *= c.y;
    }
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      const float2 c = load_shared_2(place.shrink(parity, 8 * i + 2 * quad));
#pragma unroll
      for (int m = 0; m < kProducts; ++m) {
        o[m][4 * i] *= c.x;
        o[m][4 * i + 1] *= c.y;
        o[m][4 * i + 2] *= c.x;
        o[m][4 * i + 3] *= c.y;
      }
    }
  }

  __device__ __forceinline__ void write(const float (&o)[kProducts][kSums], const float (&total)[4],
                                        const MlaPiece& piece, int parity, int piece_parity,
                                        std::int32_t first_row) const {
    // The tile's factors have been used: its sums may take their place. The tile is given back after this.
    named_sync(kMultipliers, 256);
    if (adder() < kAdders && lane < 4) {
      store_shared(place.shrink(parity, 8 * adder() + 2 * quad), total[0]);
      store_shared(place.shrink(parity, 8 * adder() + 2 * quad + 1), total[1]);
    }
    named_sync(kMultipliers, 256);
    const int total_rows = args.q_tokens * args.heads;
    const std::int64_t rows_before =
        static_cast<std::int64_t>(piece.slot < 0 ? piece.seq : piece.slot) * total_rows + first_row;
    const int own = threadIdx.x;
    if (own < kN && first_row + own < total_rows) {
      const float sum = load_shared(place.shrink(parity, own));
      (piece.slot < 0 ? args.lse : args.partial_lse)[rows_before + own] =
          sum > 0.0F
              ? (load_shared(place.top(piece_parity, own)) - C::kLift + __log2f(sum)) * 0.6931471805599453F
              : -INFINITY;
    }
    const bool wide = piece.slot >= 0 || args.out_f32;
    float* wide_out = piece.slot >= 0 ? args.partial_out : static_cast<float*>(args.out);
    auto* narrow_out = static_cast<__nv_bfloat16*>(args.out);
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      const float2 sum = load_shared_2(place.shrink(parity, 8 * i + 2 * quad));
      const float2 factors{sum.x > 0.0F ? args.out_scale / sum.x : 0.0F,
                           sum.y > 0.0F ? args.out_scale / sum.y : 0.0F};
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int row = 8 * i + 2 * quad + c;
        if (first_row + row >= total_rows) continue;
        const float factor = c == 0 ? factors.x : factors.y;
        const std::int64_t at = (rows_before + row) * kMlaLatent + 256 * group + 16 * warp;
#pragma unroll
        for (int m = 0; m < kProducts; ++m) {
          const float v0 = o[m][4 * i + c] * factor;
          const float v1 = o[m][4 * i + 2 + c] * factor;
          const std::int64_t to = at + 64 * m + dimension<Rows>(lane, 0);
          if constexpr (kIsBf16<Rows>) {
            if (wide) {
              wide_out[to] = v0;
              wide_out[to + 8] = v1;
            } else {
              narrow_out[to] = __float2bfloat16_rn(v0);
              narrow_out[to + 8] = __float2bfloat16_rn(v1);
            }
          } else if (wide) {
            *reinterpret_cast<float2*>(wide_out + to) = make_float2(v0, v1);
          } else {
            *reinterpret_cast<std::uint32_t*>(narrow_out + to) = pack(Bf16{}, v0, v1);
          }
        }
      }
    }
  }

  // A sequence of which no query token sees a row: zeros. Never split.
  __device__ inline void write_empty(const MlaPiece& piece, std::int32_t first_row) const {
    const int total_rows = args.q_tokens * args.heads;
    const std::int64_t first = static_cast<std::int64_t>(piece.seq) * total_rows + first_row;
    const int row_words = kMlaLatent / (args.out_f32 ? 4 : 8);
    auto* out = static_cast<uint4*>(args.out) + first * row_words;
    const int words = min(kN, total_rows - first_row) * row_words;
    for (int i = threadIdx.x; i < words; i += 2 * 128) out[i] = make_uint4(0, 0, 0, 0);
  }

  __device__ inline void run(std::int32_t part, std::int32_t first_row) const {
    MlaWalk walk(args, part);
    MlaPiece piece;
    Ring<C::kStages> ring;
    std::uint32_t pieces = 0;
    float o[kProducts][kSums];
    while (walk.next(args, piece)) {
      if (most_rows(args, piece.seq) == 0) {
        write_empty(piece, first_row);
        continue;
      }
      float total[4] = {};
      for (std::int32_t tile = piece.begin; tile < piece.end; ++tile) {
        const int parity = static_cast<int>(ring.done & 1);
        barrier_wait(place.p_full(parity), ring.done / 2 & 1);
        barrier_wait(place.full(ring.stage()),
                     ring.phase());  // complete long ago; makes the copy's bytes ours too
        const bool first = tile == piece.begin;
        if (!first && load_shared(place.raised(parity)) != 0.0F) shrink(o, total, parity);
        const std::uint32_t stage_at = place.stage(ring.stage());
        multiply(o, stage_at, parity, first);
        add_up(total, stage_at, parity);
        wgmma_wait<0>();
        if (lane == 0) {
          barrier_arrive(place.empty(ring.stage()));
          if (tile + 1 < piece.end) barrier_arrive(place.p_empty(parity));
        }
        ring.advance();
      }
      barrier_wait(place.top_full(static_cast<int>(pieces & 1)), pieces / 2 & 1);
      write(o, total, piece, static_cast<int>((ring.done - 1) & 1), static_cast<int>(pieces & 1), first_row);
      __syncwarp();
      if (lane == 0)
        barrier_arrive(place.p_empty(static_cast<int>((ring.done - 1) & 1)));  // the factors are read too
      ++pieces;
    }
  }
};

}  // namespace tessera::cuda::sm90

// The scoring warpgroup of the swapped kernel: S^T = K Q^T, softmax over tokens, P.
//
// A lane holds scores of two tokens (row0, row0 + 8) and of query rows 8 i + 2 (l % 4) + {0, 1}. Scores of
// the next tile are asked for, chunk by chunk, while those of the last become probabilities.
#pragma once

#include "backend/cuda/mla_swapped_sm90.cuh"

namespace tessera::cuda::sm90 {

// Joins kValues values of the eight lanes that share l % 4. Lane l ends with the joined values
// l / 4 * kValues / 8 .. + max(kValues / 8, 1) - 1 in v[0], ...
template <int kValues, class Join>
__device__ __forceinline__ void join_lanes(float (&v)[kValues], int lane, Join join) {
  int count = kValues;
#pragma unroll
  for (int step = 16; step >= 4; step /= 2) {
    if (count > 1) {
      count /= 2;
      const bool upper = (lane & step) != 0;
#pragma unroll
      for (int k = 0; k < kValues / 2; ++k) {
        if (k >= count) break;
        const float given = upper ? v[k] : v[k + count];
        const float kept = upper ? v[k + count] : v[k];
        v[k] = join(kept, __shfl_xor_sync(~0U, given, step));
      }
    } else {
      v[0] = join(v[0], __shfl_xor_sync(~0U, v[0], step));
    }
  }
}

template <class Rows, int kN>
struct Scorer {
  using C = SwappedConfig<Rows, kN>;
  using Operand = typename Rows::Operand;
  static constexpr int kSums = C::kSums;
  static constexpr int kColumnTiles = kN / 8;
  static constexpr int kColumns = 2 * kColumnTiles;                  // query rows of a lane
  static constexpr int kKept = kColumns / 8 > 1 ? kColumns / 8 : 1;  // of which it joins the maxima
  static constexpr int kTilesAChunk = kColumnTiles > 1 ? 2 : 1;      // turned into P at a time
  static constexpr int kBoxBytes = Box<Rows>::kBytes;

  const MlaArgs& args;
  const SwappedPlace<C> place;
  const int warp = (threadIdx.x / 32) % 4;
  const int lane = threadIdx.x % 32;
  const int quad = lane % 4;
  const int row0 = 16 * warp + lane / 4;

  __device__ Scorer(const MlaArgs& a, const SwappedPlace<C>& p) : args(a), place(p) {}

  // The query row of joined value number `k`.
  __device__ __forceinline__ int kept_row(int k) const {
    const int value = lane / 4 * kColumns / 8 + k;
    return 8 * (value / 2) + 2 * quad + value % 2;
  }

  // Query rows to shared memory, in the order of query_place. For f16 and e4m3 each row is divided by a power
  // of two, so that its largest value lies in [1, 2) or, for e4m3, [128, 256). Also starts the rows' rules
  // and limits.
  __device__ inline void load_queries(std::int32_t seq, std::int32_t first_row) const {
    const int total_rows = args.q_tokens * args.heads;
    const int j = lane % 8;
    const auto* q =
        static_cast<const uint4*>(args.q) + static_cast<std::int64_t>(seq) * total_rows * (kMlaDim / 8);
#pragma unroll 1
    for (int row = 4 * warp + lane / 8; row < kN; row += 16) {  // eight lanes a row
      uint4 piece[C::kChunks];
      const bool real = first_row + row < total_rows;
#pragma unroll
      for (int chunk = 0; chunk < C::kChunks; ++chunk) {
        piece[chunk] =
            real ? __ldg(q + static_cast<std::int64_t>(first_row + row) * (kMlaDim / 8) + 8 * chunk + j)
                 : make_uint4(0, 0, 0, 0);
      }
      int exponent = 0;
      if constexpr (!kIsBf16<Rows>) {
        float top = 0.0F;
#pragma unroll
        for (int chunk = 0; chunk < C::kChunks; ++chunk) {
          const std::uint32_t words[4] = {piece[chunk].x, piece[chunk].y, piece[chunk].z, piece[chunk].w};
#pragma unroll
          for (const std::uint32_t word : words) {
            top = fmaxf(
                top, fmaxf(fabsf(__uint_as_float(word << 16)), fabsf(__uint_as_float(word & 0xFFFF0000U))));
          }
        }
        for (int step = 4; step > 0; step /= 2)
          top = fmaxf(top, __shfl_xor_sync(0xFFU << (lane & 24), top, step));
        exponent = static_cast<int>(__float_as_uint(top) >> 23) - 127;
        exponent = top > 0.0F ? min(max(exponent, -100), 100) - (kIsMath<Rows> ? 7 : 0) : 0;
      }
      const float down = power_of_two(-exponent);
#pragma unroll
      for (int chunk = 0; chunk < C::kChunks; ++chunk) {
        const std::uint32_t words[4] = {piece[chunk].x, piece[chunk].y, piece[chunk].z, piece[chunk].w};
        const auto low = [&](int w) { return __uint_as_float(words[w] << 16) * down; };
        const auto high = [&](int w) { return __uint_as_float(words[w] & 0xFFFF0000U) * down; };
        if constexpr (kIsMath<Rows>) {
#pragma unroll
          for (int w = 0; w < 2; ++w) {
            const QueryPlace to = query_place<Rows>(chunk, j, w);
            store_shared(place.q(chunk) + row * C::kQRow + ((to.column ^ (row / 2 & 3)) << 4) + 4 * to.slot,
                         pack(E4m3{}, low(2 * w), high(2 * w)) | pack(E4m3{}, low(2 * w + 1), high(2 * w + 1))
                                                                     << 16);
          }
        } else {
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            const QueryPlace to = query_place<Rows>(chunk, j, w);
            store_shared(place.q(chunk) + row * C::kQRow + ((to.column ^ (row & 7)) << 4) + 4 * to.slot,
                         kIsBf16<Rows> ? words[w] : pack(Operand{}, low(w), high(w)));
          }
        }
      }
      if (j == 0) {
        const std::uint32_t rule = place.rule(row & ~1) + 4 * (row & 1);
        store_shared(rule, args.scale_log2 * power_of_two(exponent));
        store_shared(rule + 8, C::kNothing);
        store_shared(place.limit(row), static_cast<std::uint32_t>(visible_rows(
                                           args, seq, min(first_row + row, total_rows - 1) / args.heads)));
      }
    }
    fence_async_proxy();
    named_sync(kScorers, 128);
  }

  // Of two query rows: what brings their scores to the log2 domain, and the score over which the running
  // maximum is raised, which is kRaise above it.
  struct Rule {
    float scale[2];
    float limit[2];
  };
  __device__ __forceinline__ Rule rule(int column_tile) const {
    const uint4 bits = load_shared_4(place.rule(8 * column_tile + 2 * quad));
    return {{__uint_as_float(bits.x), __uint_as_float(bits.y)},
            {__uint_as_float(bits.z), __uint_as_float(bits.w)}};
  }

  // Scores of tokens that a query row does not see become -inf.
  __device__ __forceinline__ void hide(float (&s)[kSums], std::int32_t first_token) const {
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const auto limit =
            static_cast<std::int32_t>(__float_as_uint(load_shared(place.limit(8 * i + 2 * quad + c))));
        if (first_token + row0 >= limit) s[4 * i + c] = -INFINITY;
        if (first_token + row0 + 8 >= limit) s[4 * i + 2 + c] = -INFINITY;
      }
    }
  }
  // Rows that nobody sees may hold anything, NaN too, and 0 x NaN is NaN: clear what is multiplied with P.
  __device__ __forceinline__ void clear(std::uint32_t stage_at, int first_unseen) const {
    constexpr int kColumns16 = Rows::kBoxRow / 16;
    for (int i = threadIdx.x % 128; i < (C::kTokens - first_unseen) * C::kLatentBoxes * kColumns16;
         i += 128) {
      const int row = first_unseen + i / (C::kLatentBoxes * kColumns16);
      const int column = i % (C::kLatentBoxes * kColumns16);
      store_shared(
          stage_at + column / kColumns16 * kBoxBytes + row * Rows::kBoxRow + column % kColumns16 * 16,
          make_uint4(0, 0, 0, 0));
    }
    if constexpr (Rows::kGrouped) {
      for (int row = first_unseen + threadIdx.x % 128; row < C::kTokens; row += 128) {
        store_shared(place.scales(stage_at, kBoxBytes) + 16 * row, make_uint4(0, 0, 0, 0));
      }
    }
    fence_async_proxy();
  }

  // Raises the maxima that the tile outgrows, if there are any; what was added up before shrinks with them.
  // All warps agree.
  __device__ __forceinline__ void raise(const float (&s)[kSums], int parity) const {
    bool above[2] = {false, false};  // two chains, for their latency
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
      const float2 limit = load_shared_2(place.rule(8 * i + 2 * quad) + 8);
      above[0] |= fmaxf(s[4 * i], s[4 * i + 2]) > limit.x;
      above[1] |= fmaxf(s[4 * i + 1], s[4 * i + 3]) > limit.y;
    }
    const bool any = named_any(kScorers, 128, above[0] || above[1]);
    if (threadIdx.x % 128 == 0) store_shared(place.raised(parity), any ? 1U : 0U);
    if (!any) return;
    float top[kColumns];
#pragma unroll
    for (int i = 0; i < kColumnTiles; ++i) {
#pragma unroll
      for (int c = 0; c < 2; ++c) top[2 * i + c] = fmaxf(s[4 * i + c], s[4 * i + 2 + c]);
    }
    join_lanes(top, lane, [](float x, float y) { return fmaxf(x, y); });
#pragma unroll
    for (int k = 0; k < kKept; ++k) store_shared(place.exchange(warp, kept_row(k)), top[k]);
    named_sync(kScorers, 128);
    const int row = threadIdx.x % 128;
    if (row < kN) {
      const float tile =
          fmaxf(fmaxf(load_shared(place.exchange(0, row)), load_shared(place.exchange(1, row))),
                fmaxf(load_shared(place.exchange(2, row)), load_shared(place.exchange(3, row))));
      const std::uint32_t at = place.rule(row & ~1) + 4 * (row & 1);
      const float scale = load_shared(at);
      const float old = load_shared(at + 8);
      const float raised = tile + C::kRaise / scale;
      const bool higher = tile > old;
      if (higher) store_shared(at + 8, raised);
      store_shared(place.shrink(parity, row), higher ? exp2_fast((old - raised) * scale) : 1.0F);
    }
    named_sync(kScorers, 128);
  }

  // Probabilities of column tiles first .. first + kTilesAChunk - 1, stored to P. s[4 i], s[4 i + 1] then
  __device__ __forceinline__ void exponentiate(float (&s)[kSums], const Rule (&rules)[kTilesAChunk],
                                               int first, std::uint32_t p) const {
#pragma unroll
    for (int n = 0; n < kTilesAChunk; ++n) {
      const int i = first + n;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const float scale = rules[n].scale[c];
        const float shift = fmaf(-rules[n].limit[c], scale, C::kRaise + C::kLift);
        s[4 * i + c] = exp2_fast(fmaf(s[4 * i + c], scale, shift));
        s[4 * i + 2 + c] = exp2_fast(fmaf(s[4 * i + 2 + c], scale, shift));
      }
    }
    if constexpr (kIsMath<Rows>) {
#pragma unroll
      for (int n = 0; n < kTilesAChunk; ++n) {
        // Lanes l and l + 4 hold neighbouring tokens: they exchange, so that one has four tokens of an even,
        // the other of an odd query row. The bytes of a row: tokens (2 q, 2 q + 1, 2 q + 8, 2 q + 9) of a
        // warp's 16.
        const int i = first + n;
        const std::uint32_t both =
            pack(E4m3{}, s[4 * i], s[4 * i + 2]) | pack(E4m3{}, s[4 * i + 1], s[4 * i + 3]) << 16;
        const std::uint32_t other = __shfl_xor_sync(~0U, both, 4);
        const int odd = lane / 4 % 2;
        const std::uint32_t word = odd ? __byte_perm(both, other, 0x3726) : __byte_perm(both, other, 0x5140);
        const int row = 8 * i + 2 * quad + odd;
        store_shared(p + row * 64 + ((warp ^ (row / 2 & 3)) << 4) + 4 * (lane / 8), word);
      }
    } else {
      const int column = 2 * (warp % 2) + lane / 8 % 2;  // of 8 tokens, in the half of this warp
      if constexpr (kColumnTiles == 1) {
        const std::uint32_t m[2] = {pack(Operand{}, s[0], s[1]), pack(Operand{}, s[2], s[3])};
        const int row = lane % 8;
        store_matrices_transposed(p + row * 64 + ((column ^ (row / 2 & 3)) << 4), m);
      } else {
#pragma unroll
        for (int n = 0; n < kTilesAChunk; n += 2) {
          const int i = first + n;
          const std::uint32_t m[4] = {
              pack(Operand{}, s[4 * i], s[4 * i + 1]), pack(Operand{}, s[4 * i + 2], s[4 * i + 3]),
              pack(Operand{}, s[4 * i + 4], s[4 * i + 5]), pack(Operand{}, s[4 * i + 6], s[4 * i + 7])};
          const int row = 8 * (i + lane / 16) + lane % 8;
          store_matrices_transposed(p + row * 64 + ((column ^ (row / 2 & 3)) << 4), m);
        }
      }
    }
  }
  // Every lane for what it has written itself: racecheck does not follow one that arrives for its warp.
  __device__ __forceinline__ void publish(int parity) const {
    fence_async_proxy();
    barrier_arrive(place.p_full(parity));
  }
  // A scored tile on its way to P.
  struct Pending {
    std::uint32_t stage_at;
    int parity;
  };

  // Waits for the ring's tile and asks for the first of its keys.
  __device__ __forceinline__ void begin(Keys<Rows>& keys, const Ring<C::kStages>& ring) const {
    barrier_wait(place.full(ring.stage()), ring.phase());
    keys.load(place.stage(ring.stage()), 0, row0, quad);
  }

  // Whether a tile is begun before the one before it is complete. Grouped rows lack the registers.
  static constexpr bool kAhead = !Rows::kGrouped;

  // Scores the ring's tile, which has been begun, into `next`; if kPending, meanwhile turns `now` into P. At
  // the end `next` is complete, its P may be written, and if `more` the tile after it has been begun.
  template <bool kScore, bool kPending>
  __device__ __forceinline__ void step(float (&next)[kSums], float (&now)[kSums], Keys<Rows> (&keys)[2],
                                       const Ring<C::kStages>& ring, const Pending& pending,
                                       bool more) const {
    constexpr int kSteps = kChunkSteps<Rows> / 2;         // in flight: two halves of a chunk
    constexpr int kPieces = kColumnTiles / kTilesAChunk;  // of `now`, one a chunk
    const std::uint32_t stage_at = place.stage(ring.stage());
    // Where this warp's tokens lie in P.
    const std::uint32_t first_half = place.p(pending.stage_at, pending.parity, 0, kBoxBytes);
    const std::uint32_t p =
        kIsMath<Rows> || warp < 2 ? first_half : place.p(pending.stage_at, pending.parity, 1, kBoxBytes);
    const std::uint64_t queries =
        pinned(C::kQRow == 128 ? wgmma_operand(place.q(0), 8 * 128, 16) : wgmma_operand_64(place.q(0)));
    Rule rules[kTilesAChunk];
    std::uint32_t a[2][kSteps][4];
    std::uint32_t scale[2] = {};
    if (kScore && !kAhead) begin(keys[0], ring);
#pragma unroll
    for (int chunk = 0; chunk < C::kChunks; ++chunk) {
      if constexpr (kScore) {
        if (chunk + 1 < C::kChunks) {  // a chunk ahead: shared memory is busy, a load takes 150 cycles
          keys[(chunk + 1) % 2].load(stage_at + (chunk + 1) * kBoxBytes, chunk + 1, row0, quad);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (chunk > 0) wgmma_wait<1>();  // the operands of two halves ago are free
          if (half == 0 && Rows::kGrouped && chunk % 2 == 0 && chunk < C::kLatentBoxes) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
              const float one =
                  load_shared(place.scales(stage_at, kBoxBytes) + 16 * (row0 + 8 * r) + 2 * chunk);
              scale[r] = pack(F16{}, one, one);
            }
          }
          keys[chunk % 2].operands(a[half], chunk, half, scale);
          if (kPending && half == 1 && chunk < kPieces) {  // asked for early: products are issued meanwhile
#pragma unroll
            for (int n = 0; n < kTilesAChunk; ++n) rules[n] = rule(chunk * kTilesAChunk + n);
          }
          wgmma_fence();
#pragma unroll
          for (int k = 0; k < kSteps; ++k) {
            wgmma_rs<Operand, WgmmaB::kAlongK>(
                next, a[half][k], wgmma_advance(queries, chunk * C::kQChunk + 32 * (kSteps * half + k)),
                chunk + half + k > 0 ? 1 : 0);
          }
          wgmma_commit();
        }
      }
      if constexpr (kPending) {
        if (!kScore && chunk < kPieces) {
#pragma unroll
          for (int n = 0; n < kTilesAChunk; ++n) rules[n] = rule(chunk * kTilesAChunk + n);
        }
        if (chunk < kPieces) exponentiate(now, rules, chunk * kTilesAChunk, p);
        if (chunk == kPieces - 1) publish(pending.parity);
      }
    }
    if constexpr (kScore) {
      Ring<C::kStages> after = ring;
      after.advance();
      if (more && kAhead) begin(keys[0], after);
      // What the multipliers of the tile two back may still read is about to be overwritten.
      barrier_wait(place.p_empty(static_cast<int>(ring.done & 1)), (ring.done / 2 & 1) ^ 1);
      wgmma_wait<0>();
    }
  }

  __device__ inline void run(std::int32_t part, std::int32_t first_row) const {
    const int total_rows = args.q_tokens * args.heads;
    MlaWalk walk(args, part);
    MlaPiece piece;
    Ring<C::kStages> ring;
    std::uint32_t pieces = 0;
    float a[kSums];
    float b[kSums];
    Keys<Rows> keys[2];
    while (walk.next(args, piece)) {
      const std::int32_t most = most_rows(args, piece.seq);
      if (most == 0) {
        for (int row = threadIdx.x % 128; row < min(kN, total_rows - first_row); row += 128) {
          args.lse[static_cast<std::int64_t>(piece.seq) * total_rows + first_row + row] = -INFINITY;
        }
        continue;
      }
      const std::int32_t least = least_rows(args, piece.seq);
      load_queries(piece.seq, first_row);
      Pending pending{};
      const auto prepare = [&](float(&scores)[kSums],
                               std::int32_t tile) {  // of a scored tile, up to its exponentials
        pending.stage_at = place.stage(ring.stage());
        pending.parity = static_cast<int>(ring.done & 1);
        ring.advance();
        const std::int32_t first_token = tile * C::kTokens;
        if (first_token + C::kTokens > least) hide(scores, first_token);
        raise(scores, pending.parity);
        if (first_token + C::kTokens > most) clear(pending.stage_at, most - first_token);
      };
      if (kAhead) begin(keys[0], ring);
      step<true, false>(a, b, keys, ring, pending, piece.begin + 1 < piece.end);
      for (std::int32_t tile = piece.begin;; tile += 2) {
        prepare(a, tile);
        if (tile + 1 == piece.end) {
          step<false, true>(b, a, keys, ring, pending, false);
          break;
        }
        step<true, true>(b, a, keys, ring, pending, tile + 2 < piece.end);
        prepare(b, tile + 1);
        if (tile + 2 == piece.end) {
          step<false, true>(a, b, keys, ring, pending, false);
          break;
        }
        step<true, true>(a, b, keys, ring, pending, tile + 3 < piece.end);
      }
      finish(pieces);
      ++pieces;
    }
  }

  // The final maxima, for those who have the sums.
  __device__ __forceinline__ void finish(std::uint32_t pieces) const {
    const int row = threadIdx.x % 128;
    if (row < kN) {
      const std::uint32_t at = place.rule(row & ~1) + 4 * (row & 1);
      store_shared(place.top(static_cast<int>(pieces & 1), row),
                   load_shared(at + 8) * load_shared(at) - C::kRaise);
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(place.top_full(static_cast<int>(pieces & 1)));
    named_sync(kScorers, 128);  // rules and limits are free for the next piece
  }
};

}  // namespace tessera::cuda::sm90

// A consuming warpgroup of expanded attention: scores, softmax and values of 64 query tokens. The idea:
// expanded_attention_sm90.cuh.
#pragma once

#include <cmath>

#include "backend/cuda/activation.cuh"
#include "backend/cuda/expanded_attention_sm90.cuh"
#include "backend/cuda/mla_numbers_sm90.cuh"
#include "backend/cuda/wgmma_sm90.cuh"

namespace tessera::cuda::sm90 {

// Lane t of four holds parts (t, 0..3) and gets parts (0..3, t).
__device__ __forceinline__ void transpose_four(std::uint32_t (&m)[4], int t) {
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t got = __shfl_xor_sync(~0U, (t & 1) != 0 ? m[i] : m[i + 1], 1);
    ((t & 1) != 0 ? m[i] : m[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t got = __shfl_xor_sync(~0U, (t & 2) != 0 ? m[i] : m[i + 2], 2);
    ((t & 2) != 0 ? m[i] : m[i + 2]) = got;
  }
}

// Keeps the compiler from moving uses of a product's result before the wait for it.
__device__ __forceinline__ void settle(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Makes `sum`, which is not negative, known before what follows: a store that never happens. Without it the
// assembler moves exponentials behind the wait for the products that are to hide them.
__device__ __forceinline__ void hold(float sum, std::uint32_t place) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.lt.f32 p, %0, 0f00000000;\n"
      "@p st.shared.f32 [%1], %0;\n"
      "}\n" ::"f"(sum),
      "r"(place)
      : "memory");
}

// 64 query tokens of an item. A thread holds rows row0 and row0 + 8 of its warpgroup's 64; of scores and
// results the columns 8 i + 2 (lane % 4), + 1.
struct ExpandedConsumer {
  const PrefillRun& run;
  const ExpandedPlace place;
  const int group;  // 0 or 1
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row0 = 64 * group + 16 * (static_cast<int>(threadIdx.x) / 32 % 4) + lane / 4;

  struct RowState {
    float top[2];  // running maximum, log2 domain
    float sum[2];  // over this thread's columns
  };
  __device__ __forceinline__ void my_turn() const { named_sync(kTurn0 + group, Expanded::kConsumers); }
  __device__ __forceinline__ void your_turn() const { named_arrive(kTurn1 - group, Expanded::kConsumers); }
  __device__ __forceinline__ void release(std::uint32_t barrier) const {
    if (lane == 0) barrier_arrive(barrier);
  }

  // Read by the lane that gives it back, and told to the others.
  __device__ __forceinline__ Item load_item() const {
    uint4 a = {};
    uint4 b = {};
    if (lane == 0) {
      a = load_shared_4(place.item());
      b = load_shared_4(place.item() + 16);
    }
    const auto told = [](std::uint32_t word) { return static_cast<std::int32_t>(__shfl_sync(~0U, word, 0)); };
    return {.first_token = told(a.x),
            .tokens = told(a.y),
            .first_row = told(a.z),
            .rows = told(a.w),
            .full_rows = told(b.x),
            .head = told(b.y)};
  }

  // S = Q K^T. Asks, does not wait.
  __device__ __forceinline__ void score(float (&s)[64], std::uint32_t keys) const {
    wgmma_fence();
#pragma unroll
    for (int chunk = 0; chunk < Expanded::kQueryChunks; ++chunk) {
      const std::uint64_t q = wgmma_operand(place.q() + chunk * Expanded::kChunkBytes + group * 64 * 128,
                                            Expanded::kSwizzleGroup, 16);
      const std::uint64_t k =
          wgmma_operand(keys + chunk * Expanded::kChunkBytes, Expanded::kSwizzleGroup, 16);
#pragma unroll
      for (int step = 0; step < 4; ++step) {  // 16 columns are 32 bytes
        wgmma_ss<Bf16, WgmmaB::kAlongK>(s, wgmma_advance(q, 32 * step), wgmma_advance(k, 32 * step),
                                        chunk + step > 0 ? 1 : 0);
      }
    }
    wgmma_commit();
  }
  // O += P V. Asks, does not wait.
  __device__ __forceinline__ void multiply(float (&o)[64], const std::uint32_t (&p)[8][4],
                                           std::uint32_t values) const {
    wgmma_fence();
    const std::uint64_t v = wgmma_operand(values, Expanded::kSwizzleGroup, Expanded::kChunkBytes);
#pragma unroll
    for (int step = 0; step < 8; ++step) {  // 16 rows of V
      wgmma_rs<Bf16, WgmmaB::kAlongColumns>(o, p[step], wgmma_advance(v, 16 * 128 * step), 1);
    }
    wgmma_commit();
  }

  // Scores become weights, not yet rounded; `shrink` is what older sums must be multiplied by.
  __device__ __forceinline__ void weigh(float (&s)[64], RowState& rows, float (&shrink)[2], int first,
                                        const int (&limit)[2], bool masked) const {
    if (masked) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (first + 8 * i + 2 * (lane % 4) + e % 2 >= limit[e / 2]) s[4 * i + e] = -INFINITY;
        }
      }
    }
    const float scale = run.scale * Expanded::kLog2E;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = fmaxf(s[2 * half], s[2 * half + 1]);
#pragma unroll
      for (int i = 1; i < 16; ++i) most = fmaxf(most, fmaxf(s[4 * i + 2 * half], s[4 * i + 2 * half + 1]));
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0U, most, 2)) * scale;
      shrink[half] = 1.0F;
      if (most > rows.top[half] + Expanded::kRaise) {  // also when the maximum is still -inf
        shrink[half] = exp2_fast(rows.top[half] - most);
        rows.top[half] = most;
      }
      const float shift =
          rows.top[half] == -INFINITY ? 0.0F : rows.top[half];  // nothing seen yet: exp2(-inf)
      float sum = 0.0F;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * i + 2 * half + e];
          x = exp2_fast(fmaf(x, scale, -shift));
          sum += x;
        }
      }
      rows.sum[half] = rows.sum[half] * shrink[half] + sum;
    }
  }
  __device__ __forceinline__ static void round(const float (&s)[64], std::uint32_t (&p)[8][4]) {
#pragma unroll
    for (int i = 0; i < 32; ++i) p[i / 4][i % 4] = pack(Bf16{}, s[2 * i], s[2 * i + 1]);
  }
  __device__ __forceinline__ static void shrink_rows(float (&o)[64], const float (&shrink)[2]) {
    if (!__any_sync(~0U, shrink[0] != 1.0F || shrink[1] != 1.0F)) return;
#pragma unroll
    for (int i = 0; i < 64; ++i) o[i] *= shrink[i / 2 % 2];
  }

  // What the rounds before have found: asked for before the first scores, taken up after them.
  struct Found {
    float lse[2];
    uint4 words[2][4];
  };
  __device__ __forceinline__ void look_up(Found& found, const Item& item) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t token = item.first_token + min(row0 + 8 * half, item.tokens - 1);
      found.lse[half] = item.first_row > 0 ? run.lse[token * run.lse_stride + item.head] : -INFINITY;
      const bf16* out = static_cast<const bf16*>(run.out.data) + token * run.out.stride +
                        static_cast<std::int64_t>(item.head) * Expanded::kValue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // 32 columns, of which a lane reads 8
        found.words[half][i] = uint4{};
        if (item.first_row > 0) {
          found.words[half][i] = *reinterpret_cast<const uint4*>(out + 32 * i + 8 * (lane % 4));
        }
      }
    }
  }
  // As if it were one more row.
  __device__ __forceinline__ void take_up(float (&o)[64], RowState& rows, const Found& found) const {
    const int t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool any = found.lse[half] != -INFINITY;
      rows.top[half] = any ? found.lse[half] * Expanded::kLog2E : -INFINITY;
      rows.sum[half] = any && t == 0 ? 1.0F : 0.0F;  // the four lanes of a row add up at the end
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 words = found.words[half][i];
        std::uint32_t m[4] = {words.x, words.y, words.z, words.w};
        transpose_four(m, t);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          o[4 * (4 * i + j) + 2 * half] = __uint_as_float(m[j] << 16);
          o[4 * (4 * i + j) + 2 * half + 1] = __uint_as_float(m[j] & 0xFFFF0000U);
        }
      }
    }
  }

  __device__ __forceinline__ void write(const float (&o)[64], const RowState& rows, const Item& item) const {
    const int t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float sum = rows.sum[half] + __shfl_xor_sync(~0U, rows.sum[half], 1);
      sum += __shfl_xor_sync(~0U, sum, 2);
      const bool empty = sum == 0.0F;
      const float by = empty ? 0.0F : 1.0F / sum;
      const int at = row0 + 8 * half;
      const bool is_token = at < item.tokens;
      const std::int64_t token = item.first_token + at;
      bf16* out = static_cast<bf16*>(run.out.data) + token * run.out.stride +
                  static_cast<std::int64_t>(item.head) * Expanded::kValue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        std::uint32_t m[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float* d = &o[4 * (4 * i + j) + 2 * half];
          m[j] = pack(Bf16{}, d[0] * by, d[1] * by);
        }
        transpose_four(m, t);
        if (is_token) *reinterpret_cast<uint4*>(out + 32 * i + 8 * t) = uint4{m[0], m[1], m[2], m[3]};
      }
      if (is_token && t == 0) {
        run.lse[token * run.lse_stride + item.head] =
            empty ? -INFINITY : (rows.top[half] + __log2f(sum)) / Expanded::kLog2E;
      }
    }
  }

  __device__ inline void work() const {
    std::uint32_t done = 0;
    float o[64];
    float s[64];
    std::uint32_t p[8][4];
    if (group == 1) your_turn();
    for (std::uint32_t drawn = 0;; ++drawn) {
      barrier_wait(place.q_full(), drawn & 1);
      const Item item = load_item();
      if (item.tokens == 0) return;
      const int count = (item.rows + Expanded::kRows - 1) / Expanded::kRows;
      int limit[2];  // rows of the piece that the two tokens see
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at =
            min(row0 + 8 * half, item.tokens - 1);  // past the end: the last token again, not written
        limit[half] = min(run.batch.visible_rows[item.first_token + at] - item.first_row, item.rows);
      }
      Found found;
      look_up(found, item);
      RowState rows;
      if (count > 0) {
        barrier_wait(place.keys_full(stage_of(done)), phase_of(done));
        my_turn();
        score(s, place.keys(stage_of(done)));
        your_turn();
        float shrink[2];
        wgmma_wait<0>();
        settle(s);
        release(place.keys_empty(stage_of(done)));
        take_up(o, rows, found);
        weigh(s, rows, shrink, 0, limit, Expanded::kRows > item.full_rows);
        shrink_rows(o, shrink);
        round(s, p);
        for (int i = 1; i < count; ++i) {
          const std::uint32_t n = done + i;
          barrier_wait(place.keys_full(stage_of(n)), phase_of(n));
          my_turn();
          score(s, place.keys(stage_of(n)));
          barrier_wait(place.values_full(stage_of(n - 1)), phase_of(n - 1));
          multiply(o, p, place.values(stage_of(n - 1)));
          your_turn();
          wgmma_wait<1>();
          settle(s);
          release(place.keys_empty(stage_of(n)));
          weigh(s, rows, shrink, i * Expanded::kRows, limit, (i + 1) * Expanded::kRows > item.full_rows);
          hold(rows.sum[0] + rows.sum[1], place.item());
          wgmma_wait<0>();
          settle(o);
          release(place.values_empty(stage_of(n - 1)));
          shrink_rows(o, shrink);
          round(s, p);
        }
        done += count;
        release(place.q_empty());
        barrier_wait(place.values_full(stage_of(done - 1)), phase_of(done - 1));
        multiply(o, p, place.values(stage_of(done - 1)));
        wgmma_wait<0>();
        settle(o);
        release(place.values_empty(stage_of(done - 1)));
      } else {
        take_up(o, rows, found);
        release(place.q_empty());
      }
      write(o, rows, item);
    }
  }
};

}  // namespace tessera::cuda::sm90

// Expanded attention on tensor cores: 128 query tokens of one head a block, 16 a warp; keys and values pass
// by in tiles of 64 rows, two in shared memory. A key is its own nope part and the rope part that all heads
// share.
#include "backend/cuda/activation.cuh"
#include "backend/cuda/async_copy.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/mla_prefill.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kQueries = 16 * kWarps;  // tokens a block
constexpr int kRowsATile = 64;
constexpr int kPad = 8;  // values after each row, which spread eight rows over all banks
constexpr float kLog2E = 1.4426950408889634F;

template <int kNope, int kRope, int kValue>
struct Tile {
  static constexpr int kKey = kNope + kRope;
  static constexpr int kKeyPitch = kKey + kPad;
  static constexpr int kValuePitch = kValue + kPad;
  bf16 keys[kRowsATile][kKeyPitch];
  bf16 values[kRowsATile][kValuePitch];
};

__device__ __forceinline__ void mma(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                    std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void load_matrices(std::uint32_t (&b)[4], const bf16* address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(address))));
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&b)[4], const bf16* address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(address))));
}
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

template <int kNope, int kRope, int kValue>
__global__ void __launch_bounds__(kThreads, 1) expanded_mma_kernel(const __grid_constant__ PrefillRun run) {
  using Shared = Tile<kNope, kRope, kValue>;
  constexpr int kKey = Shared::kKey;
  constexpr int kKeySteps = kKey / 16;
  constexpr int kRowTiles = kRowsATile / 8;
  constexpr int kValueTiles = kValue / 8;
  extern __shared__ __align__(128) unsigned char memory[];
  auto* tiles = reinterpret_cast<Shared*>(memory);
  __shared__ int most_visible;

  const PrefillPiece piece = run.pieces[blockIdx.z];
  // The last tokens see the most rows: they start first.
  const int q_tile = static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int first_query = q_tile * kQueries;
  if (first_query >= piece.tokens) return;
  const std::int64_t heads = run.shape.heads;
  const std::int64_t head = blockIdx.y;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;

  if (threadIdx.x == 0) most_visible = 0;
  __syncthreads();
  std::int64_t token[2];
  int visible[2];  // rows of this piece
  bool is_token[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = first_query + warp * 16 + g + 8 * i;
    is_token[i] = at < piece.tokens;
    token[i] = piece.first_token + min(at, piece.tokens - 1);
    visible[i] =
        is_token[i] ? max(0, min(run.batch.visible_rows[token[i]] - piece.first_row, piece.rows)) : 0;
    if (visible[i] > 0) atomicMax(&most_visible, visible[i]);
  }

  std::uint32_t query[kKeySteps][4];
  const auto* q = static_cast<const bf16*>(run.q.data) + head * kKey;
#pragma unroll
  for (int s = 0; s < kKeySteps; ++s) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bf16* at = q + token[i % 2] * run.q.stride + s * 16 + i / 2 * 8 + 2 * t;
      query[s][i] = is_token[i % 2] ? *reinterpret_cast<const std::uint32_t*>(at) : 0U;
    }
  }

  float top[2] = {-INFINITY, -INFINITY};  // in units of log2
  float sum[2] = {0, 0};
  float out[kValueTiles][4] = {};
  auto* y = static_cast<bf16*>(run.out.data) + head * kValue;
  if (piece.first_row > 0) {  // what earlier rounds have found
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float lse = is_token[i] ? run.lse[token[i] * run.lse_stride + head] : -INFINITY;
      if (lse == -INFINITY) continue;
      top[i] = lse * kLog2E;
      sum[i] = t == 0 ? 1.0F : 0.0F;  // the four lanes of a row add up at the end
#pragma unroll
      for (int n = 0; n < kValueTiles; ++n) {
        const bf16* at = y + token[i] * run.out.stride + n * 8 + 2 * t;
        out[n][2 * i] = widen(at[0]);
        out[n][2 * i + 1] = widen(at[1]);
      }
    }
  }
  __syncthreads();
  const int tiles_to_do = (most_visible + kRowsATile - 1) / kRowsATile;

  const auto stage_in = [&](int tile) {
    Shared& to = tiles[tile % 2];
    constexpr int kNopePieces = kNope / 8;
    constexpr int kRopePieces = kRope / 8;
    constexpr int kValuePieces = kValue / 8;
    constexpr int kPieces = kNopePieces + kRopePieces + kValuePieces;
    for (int i = static_cast<int>(threadIdx.x); i < kRowsATile * kPieces; i += kThreads) {
      const int r = i / kPieces;
      const int p = i % kPieces;
      const int in_piece = tile * kRowsATile + r;
      const bool inside = in_piece < piece.rows;
      const std::int64_t row = piece.chunk_row + (inside ? in_piece : 0);
      if (p < kNopePieces) {
        copy_16(&to.keys[r][p * 8], static_cast<const bf16*>(run.keys) + (row * heads + head) * kNope + p * 8,
                inside);
      } else if (p < kNopePieces + kRopePieces) {
        copy_16(&to.keys[r][p * 8],
                static_cast<const bf16*>(run.latents) + row * (run.shape.latent + kRope) + run.shape.latent +
                    (p - kNopePieces) * 8,
                inside);
      } else {
        const int v = (p - kNopePieces - kRopePieces) * 8;
        copy_16(&to.values[r][v], static_cast<const bf16*>(run.values) + (row * heads + head) * kValue + v,
                inside);
      }
    }
    copies_commit();
  };

  const float scale = run.scale * kLog2E;
  if (tiles_to_do > 0) stage_in(0);
  for (int tile = 0; tile < tiles_to_do; ++tile) {
    copies_wait<0>();
    __syncthreads();  // this tile is there for all, and all have left the other one
    if (tile + 1 < tiles_to_do) stage_in(tile + 1);
    const Shared& here = tiles[tile % 2];

    float score[kRowTiles][4] = {};
#pragma unroll
    for (int s = 0; s < kKeySteps; ++s) {
#pragma unroll
      for (int n = 0; n < kRowTiles; n += 2) {
        std::uint32_t b[4];  // rows 8 n .. + 7 and 8 n + 8 .. + 15, 16 columns
        load_matrices(b, &here.keys[n * 8 + lane / 16 * 8 + lane % 8][s * 16 + lane / 8 % 2 * 8]);
        mma(score[n], query[s], b[0], b[1]);
        mma(score[n + 1], query[s], b[2], b[3]);
      }
    }

    float now_top[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = tile * kRowsATile + n * 8 + 2 * t + c % 2;
        score[n][c] = row < visible[c / 2] ? score[n][c] * scale : -INFINITY;
        now_top[c / 2] = fmaxf(now_top[c / 2], score[n][c]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      now_top[i] = quad_max(now_top[i]);
      const float keep = top[i] == -INFINITY ? 0.0F : exp2f(top[i] - now_top[i]);
      top[i] = now_top[i];
      sum[i] *= keep;
#pragma unroll
      for (int n = 0; n < kValueTiles; ++n) {
        out[n][2 * i] *= keep;
        out[n][2 * i + 1] *= keep;
      }
    }
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float weight = top[c / 2] == -INFINITY ? 0.0F : exp2f(score[n][c] - top[c / 2]);
        sum[c / 2] += weight;
        score[n][c] = weight;
      }
    }

#pragma unroll
    for (int s = 0; s < kRowsATile / 16; ++s) {
      const std::uint32_t p[4] = {
          pack(score[2 * s][0], score[2 * s][1]), pack(score[2 * s][2], score[2 * s][3]),
          pack(score[2 * s + 1][0], score[2 * s + 1][1]), pack(score[2 * s + 1][2], score[2 * s + 1][3])};
#pragma unroll
      for (int n = 0; n < kValueTiles; n += 2) {
        std::uint32_t b[4];  // 16 rows, columns 8 n .. + 7 and 8 n + 8 .. + 15
        load_matrices_transposed(b, &here.values[s * 16 + lane % 16][n * 8 + lane / 16 * 8]);
        mma(out[n], p, b[0], b[1]);
        mma(out[n + 1], p, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    sum[i] = quad_sum(sum[i]);
    if (!is_token[i]) continue;
    const bool empty = sum[i] == 0.0F;
    const float by = empty ? 0.0F : 1.0F / sum[i];
#pragma unroll
    for (int n = 0; n < kValueTiles; ++n) {
      *reinterpret_cast<std::uint32_t*>(y + token[i] * run.out.stride + n * 8 + 2 * t) =
          pack(out[n][2 * i] * by, out[n][2 * i + 1] * by);
    }
    if (t == 0) {
      run.lse[token[i] * run.lse_stride + head] = empty ? -INFINITY : (top[i] + log2f(sum[i])) / kLog2E;
    }
  }
}

template <int kNope, int kRope, int kValue>
void launch(const PrefillRun& run, cudaStream_t stream) {
  constexpr int kBytes = 2 * sizeof(Tile<kNope, kRope, kValue>);
  static_assert(kBytes <= 99 * 1024, "what every device since sm_86 offers a block");
  const auto kernel = expanded_mma_kernel<kNope, kRope, kValue>;
  TS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const dim3 grid(grid_of(run.round.most_tokens, kQueries), static_cast<unsigned>(run.shape.heads),
                  static_cast<unsigned>(run.round.pieces));
  kernel<<<grid, kThreads, kBytes, stream>>>(run);
  TS_CUDA(cudaGetLastError());
}

}  // namespace

bool has_expanded_attention_mma(const PrefillRun& run) {
  const PrefillShape& s = run.shape;
  const auto aligned = [](const Tensor& x) {
    return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && x.stride % 8 == 0;
  };
  return run.q.dtype == DType::kBF16 && s.rope == 64 && s.latent % 8 == 0 && aligned(run.q) &&
         aligned(run.out) && ((s.nope == 128 && s.value == 128) || (s.nope == 64 && s.value == 64));
}

void launch_expanded_attention_mma(const PrefillRun& run, cudaStream_t stream) {
  TS_CHECK(has_expanded_attention_mma(run));
  if (run.shape.nope == 128) {
    launch<128, 64, 128>(run, stream);
  } else {
    launch<64, 64, 64>(run, stream);
  }
}

}  // namespace tessera::cuda

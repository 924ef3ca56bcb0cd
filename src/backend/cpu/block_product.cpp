#include "backend/cpu/block_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/block_product.cpp"
// clang-format off: this header comes first
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format on
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

enum class Layout { kRows, kFixed, kColumns };

// Accumulators fill the register file: 12 x 2 of 32 (AVX-512), 6 x 2 of 16 (AVX2); the rest holds B and
// broadcasts. At 2 multiply-adds a cycle and 4 cycles of latency, 8 chains are enough.
constexpr int kTileRows = HWY_MAX_BYTES >= 64 ? 12 : HWY_MAX_BYTES >= 32 ? 6 : 2;

template <Layout L, int R, int V>
HWY_INLINE void tile(const BlockProduct& p, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                     float* HWY_RESTRICT c, const float* HWY_RESTRICT scale) {
  const hn::ScalableTag<float> d;
  using Vec = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t a_stride = L == Layout::kFixed ? kFixedStride : p.a_stride;
  Vec sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < p.depth; ++k) {
    Vec column[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) column[v] = hn::LoadU(d, b + k * p.b_stride + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec value = hn::Set(d, L == Layout::kColumns ? a[k * a_stride + r] : a[r * a_stride + k]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(value, column[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      float* to = c + r * p.c_stride + v * lanes;
      const Vec before = p.first ? hn::Zero(d) : hn::LoadU(d, to);
      const Vec after = scale == nullptr ? hn::Add(before, sum[r][v])
                                         : hn::MulAdd(sum[r][v], hn::LoadU(d, scale + v * lanes), before);
      hn::StoreU(after, d, to);
    }
  }
}

template <Layout L, int V, int R>
HWY_INLINE void last_rows(int rows, const BlockProduct& p, const float* a, const float* b, float* c,
                          const float* scale) {
  if constexpr (R > 0) {
    if (rows == R) {
      tile<L, R, V>(p, a, b, c, scale);
    } else {
      last_rows<L, V, R - 1>(rows, p, a, b, c, scale);
    }
  }
}

template <Layout L, int V>
HWY_NOINLINE void column_strip(const BlockProduct& p, std::int64_t col) {
  const float* b = p.b + col;
  const float* scale = p.scale == nullptr ? nullptr : p.scale + col;
  const std::int64_t row_step = L == Layout::kColumns ? 1 : L == Layout::kFixed ? kFixedStride : p.a_stride;
  std::int64_t row = 0;
  for (; row + kTileRows <= p.rows; row += kTileRows) {
    tile<L, kTileRows, V>(p, p.a + row * row_step, b, p.c + row * p.c_stride + col, scale);
  }
  last_rows<L, V, kTileRows - 1>(static_cast<int>(p.rows - row), p, p.a + row * row_step, b,
                                 p.c + row * p.c_stride + col, scale);
}

template <Layout L>
void multiply(const BlockProduct& p) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  std::int64_t col = 0;
  for (; col + 2 * lanes <= p.cols; col += 2 * lanes) column_strip<L, 2>(p, col);
  if (col < p.cols) column_strip<L, 1>(p, col);
}

void multiply_rows_simd(const BlockProduct& p) { multiply<Layout::kRows>(p); }
void multiply_fixed_simd(const BlockProduct& p) { multiply<Layout::kFixed>(p); }
void multiply_columns_simd(const BlockProduct& p) { multiply<Layout::kColumns>(p); }

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(multiply_rows_simd);
HWY_EXPORT(multiply_fixed_simd);
HWY_EXPORT(multiply_columns_simd);

void multiply_rows(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_rows_simd)(product); }
void multiply_fixed(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_fixed_simd)(product); }
void multiply_columns(const BlockProduct& product) { HWY_DYNAMIC_DISPATCH(multiply_columns_simd)(product); }

}  // namespace tessera
#endif

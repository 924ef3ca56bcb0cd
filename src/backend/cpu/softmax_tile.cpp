#include "backend/cpu/softmax_tile.h"

#include <cmath>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/softmax_tile.cpp"
// clang-format off: this header comes first
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// clang-format on
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// Below exp(-87) lie the subnormal numbers, on which every multiply-add would take a hundred times as long.
constexpr float kLeastExponent = -87.0F;

// Highway's Exp gives 0 for NaN; a NaN score must stay visible in the result.
HWY_INLINE Vec exp_or_nan(Vec x) {
  const Tag d;
  const Vec e = hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kLeastExponent)), hn::Exp(d, x));
  return hn::IfThenElse(hn::IsNaN(x), x, e);
}

void softmax_scores_simd(const ScoreTile& t, const SoftmaxState& state) {
  const Tag d;
  const hn::RebindToSigned<Tag> ints;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Vec none = hn::Set(d, -std::numeric_limits<float>::infinity());
  const Vec scale = hn::Set(d, t.scale);
  for (std::int64_t c = 0; c < t.cols; c += lanes) {
    const auto visible = hn::LoadU(ints, t.visible + c);
    const Vec old_peak = hn::LoadU(d, state.peak + c);
    Vec peak = old_peak;
    for (std::int64_t r = 0; r < t.rows; ++r) {
      float* at = t.scores + r * t.stride + c;
      const auto seen = hn::RebindMask(d, hn::Gt(visible, hn::Set(ints, static_cast<std::int32_t>(r))));
      const Vec score = hn::IfThenElse(seen, hn::Mul(hn::LoadU(d, at), scale), none);
      hn::StoreU(score, d, at);
      peak = hn::IfThenElse(hn::Gt(score, peak), score, peak);
    }
    // Where no row was seen, exponents are taken of -inf - 0, not of -inf - -inf.
    const Vec base = hn::IfThenElse(hn::Eq(peak, none), hn::Zero(d), peak);
    Vec sum = hn::Zero(d);
    for (std::int64_t r = 0; r < t.rows; ++r) {
      float* at = t.scores + r * t.stride + c;
      const Vec weight = exp_or_nan(hn::Sub(hn::LoadU(d, at), base));
      hn::StoreU(weight, d, at);
      sum = hn::Add(sum, weight);
    }
    const Vec decay =
        hn::IfThenElse(hn::Eq(old_peak, peak), hn::Set(d, 1.0F), exp_or_nan(hn::Sub(old_peak, base)));
    hn::StoreU(decay, d, t.decay + c);
    hn::StoreU(peak, d, state.peak + c);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, state.total + c), decay, sum), d, state.total + c);
  }
}

HWY_INLINE void scale_row(float* row, std::int64_t width, float factor) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Vec by = hn::Set(d, factor);
  for (std::int64_t i = 0; i < width; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, row + i), by), d, row + i);
}

void decay_outputs_simd(const float* decay, std::int64_t cols, std::int64_t width,
                        const SoftmaxState& state) {
  for (std::int64_t c = 0; c < cols; ++c) {
    if (decay[c] != 1.0F) scale_row(state.out + c * state.out_stride, width, decay[c]);
  }
}

void join_outputs_simd(float* earlier, float a, const float* later, float b, std::int64_t width) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < width; i += lanes) {
    const Vec kept = hn::Mul(hn::LoadU(d, earlier + i), hn::Set(d, a));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, later + i), hn::Set(d, b), kept), d, earlier + i);
  }
}

bool all_finite_simd(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t cols) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // x - x is 0 for finite x and NaN otherwise; a sum of zeros that meets a NaN stays NaN.
  Vec sum = hn::Zero(d);
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = values + r * stride;
    std::int64_t c = 0;
    for (; c + lanes <= cols; c += lanes) {
      const Vec x = hn::LoadU(d, row + c);
      sum = hn::Add(sum, hn::Sub(x, x));
    }
    for (; c < cols; ++c) {
      if (!std::isfinite(row[c])) return false;
    }
  }
  return !std::isnan(hn::GetLane(hn::SumOfLanes(d, sum)));
}

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(softmax_scores_simd);
HWY_EXPORT(decay_outputs_simd);
HWY_EXPORT(join_outputs_simd);
HWY_EXPORT(all_finite_simd);

void softmax_scores(const ScoreTile& tile, const SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(softmax_scores_simd)(tile, state);
}

void decay_outputs(const float* decay, std::int64_t cols, std::int64_t width, const SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(decay_outputs_simd)(decay, cols, width, state);
}

void join_softmax(const SoftmaxState& earlier, const SoftmaxState& later, std::int64_t cols,
                  std::int64_t width) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (std::int64_t c = 0; c < cols; ++c) {
    if (later.peak[c] == kNone && later.total[c] == 0.0F) continue;  // a NaN total is not nothing
    const bool fresh = earlier.peak[c] == kNone;
    const float peak = std::fmax(earlier.peak[c], later.peak[c]);
    const float a = fresh ? 0.0F : std::exp(earlier.peak[c] - peak);
    const float b = std::exp(later.peak[c] - peak);
    HWY_DYNAMIC_DISPATCH(join_outputs_simd)
    (earlier.out + c * earlier.out_stride, a, later.out + c * later.out_stride, b, width);
    earlier.total[c] = std::fma(later.total[c], b, earlier.total[c] * a);
    earlier.peak[c] = peak;
  }
}

float finish_column(const SoftmaxState& state, std::int64_t col, std::int64_t width, float* dst) {
  const float* out = state.out + col * state.out_stride;
  const float peak = state.peak[col];
  const float total = state.total[col];
  if (peak == -std::numeric_limits<float>::infinity() && total == 0.0F) {
    for (std::int64_t i = 0; i < width; ++i) dst[i] = 0;
    return peak;
  }
  // + 0 turns a negative zero, which an unseen row may leave or not, into a plain one.
  for (std::int64_t i = 0; i < width; ++i) dst[i] = out[i] / total + 0.0F;
  return peak + std::log(total);
}

bool all_finite(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t cols) {
  return HWY_DYNAMIC_DISPATCH(all_finite_simd)(values, stride, rows, cols);
}

}  // namespace tessera
#endif

#include "backend/cpu/logits_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/logits_row.cpp"
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

constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(Tag()));

RowPeak row_peak_simd(const float* logits, std::int64_t vocab) {
  const Tag d;
  Vec peak = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto nan = hn::IsNaN(peak);
  std::int64_t i = 0;
  for (; i + kLanes <= vocab; i += kLanes) {
    const Vec x = hn::LoadU(d, logits + i);
    nan = hn::Or(nan, hn::IsNaN(x));
    peak = hn::IfThenElse(hn::Gt(x, peak), x, peak);
  }
  RowPeak result{.peak = hn::GetLane(hn::MaxOfLanes(d, peak)), .has_nan = !hn::AllFalse(d, nan)};
  for (; i < vocab; ++i) {
    result.has_nan |= std::isnan(logits[i]);
    if (logits[i] > result.peak) result.peak = logits[i];
  }
  return result;
}

void row_weights_simd(const float* logits, std::int64_t vocab, float peak, float inverse_temperature,
                      float* weights) {
  const Tag d;
  const Vec top = hn::Set(d, peak);
  const Vec by = hn::Set(d, inverse_temperature);
  const Vec least = hn::Set(d, -87.0F);  // no subnormal weights: they are slow and never drawn
  const auto weight = [&](Vec x) {
    const Vec exponent = hn::Mul(hn::Sub(x, top), by);
    return hn::IfThenZeroElse(hn::Lt(exponent, least), hn::Exp(d, exponent));
  };
  std::int64_t i = 0;
  for (; i + kLanes <= vocab; i += kLanes) hn::StoreU(weight(hn::LoadU(d, logits + i)), d, weights + i);
  for (; i < vocab; ++i) weights[i] = hn::GetLane(weight(hn::Set(d, logits[i])));
}

double row_sum_simd(const float* weights, std::int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  constexpr auto kHalf = static_cast<std::int64_t>(hn::MaxLanes(d));
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * kHalf <= count; i += 2 * kHalf) {
    a = hn::Add(a, hn::PromoteTo(d, hn::LoadU(half, weights + i)));
    b = hn::Add(b, hn::PromoteTo(d, hn::LoadU(half, weights + i + kHalf)));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < count; ++i) sum += static_cast<double>(weights[i]);
  return sum;
}

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(row_peak_simd);
HWY_EXPORT(row_weights_simd);
HWY_EXPORT(row_sum_simd);

RowPeak row_peak(const float* logits, std::int64_t vocab) {
  return HWY_DYNAMIC_DISPATCH(row_peak_simd)(logits, vocab);
}

void row_weights(const float* logits, std::int64_t vocab, float peak, float inverse_temperature,
                 float* weights) {
  HWY_DYNAMIC_DISPATCH(row_weights_simd)(logits, vocab, peak, inverse_temperature, weights);
}

double row_sum(const float* weights, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(row_sum_simd)(weights, count);
}

}  // namespace tessera
#endif

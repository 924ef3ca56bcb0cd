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

// Sum in f64 of keep(weights), in one order.
template <class Keep>
HWY_INLINE double sum_of(const float* weights, std::int64_t count, const Keep& keep) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  constexpr auto kHalf = static_cast<std::int64_t>(hn::MaxLanes(d));
  auto a = hn::Zero(d);
  auto b = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * kHalf <= count; i += 2 * kHalf) {
    a = hn::Add(a, hn::PromoteTo(d, keep(half, hn::LoadU(half, weights + i))));
    b = hn::Add(b, hn::PromoteTo(d, keep(half, hn::LoadU(half, weights + i + kHalf))));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < count; ++i) sum += static_cast<double>(hn::GetLane(keep(half, hn::Set(half, weights[i]))));
  return sum;
}

double row_sum_simd(const float* weights, std::int64_t count) {
  return sum_of(weights, count, [](auto, auto x) { return x; });
}

double row_sum_below_simd(const float* weights, std::int64_t count, float floor) {
  return sum_of(weights, count,
                [floor](auto d, auto x) { return hn::IfThenElseZero(hn::Lt(x, hn::Set(d, floor)), x); });
}

std::int64_t collect_at_least_simd(const float* values, std::int64_t count, float least, std::int32_t* ids) {
  const Tag d;
  const hn::RebindToSigned<Tag> ints;
  const Vec bound = hn::Set(d, least);
  std::int64_t found = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto keep = hn::Ge(hn::LoadU(d, values + i), bound);
    if (hn::AllFalse(d, keep)) continue;
    const auto here = hn::Iota(ints, static_cast<std::int32_t>(i));
    found +=
        static_cast<std::int64_t>(hn::CompressStore(here, hn::RebindMask(ints, keep), ints, ids + found));
  }
  for (; i < count; ++i) {
    if (values[i] >= least) ids[found++] = static_cast<std::int32_t>(i);
  }
  return found;
}

void block_peaks_simd(const float* values, std::int64_t count, float* peaks) {
  const Tag d;
  for (std::int64_t first = 0; first < count; first += kPeakBlock) {
    const std::int64_t last = std::min(count, first + kPeakBlock);
    Vec peak = hn::Set(d, -std::numeric_limits<float>::infinity());
    std::int64_t i = first;
    for (; i + kLanes <= last; i += kLanes) peak = hn::Max(peak, hn::LoadU(d, values + i));
    float all = hn::GetLane(hn::MaxOfLanes(d, peak));
    for (; i < last; ++i) all = std::max(all, values[i]);
    peaks[first / kPeakBlock] = all;
  }
}

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(row_peak_simd);
HWY_EXPORT(row_weights_simd);
HWY_EXPORT(row_sum_simd);
HWY_EXPORT(row_sum_below_simd);
HWY_EXPORT(collect_at_least_simd);
HWY_EXPORT(block_peaks_simd);

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

double row_sum_below(const float* weights, std::int64_t count, float floor) {
  return HWY_DYNAMIC_DISPATCH(row_sum_below_simd)(weights, count, floor);
}

std::int64_t collect_at_least(const float* values, std::int64_t count, float least, std::int32_t* ids) {
  return HWY_DYNAMIC_DISPATCH(collect_at_least_simd)(values, count, least, ids);
}

void block_peaks(const float* values, std::int64_t count, float* peaks) {
  HWY_DYNAMIC_DISPATCH(block_peaks_simd)(values, count, peaks);
}

}  // namespace tessera
#endif

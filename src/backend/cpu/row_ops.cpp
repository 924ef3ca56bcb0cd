#include "backend/cpu/row_ops.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/row_ops.cpp"
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

// Calls step(i, lanes at i) over the width; the last, partial vector goes through `tail` element by element.
template <class Step, class Tail>
HWY_INLINE void over(std::int64_t width, Step&& step, Tail&& tail) {
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) step(i);
  for (; i < width; ++i) tail(i);
}

float mean_square(const float* x, std::int64_t width) {
  const Tag d;
  Vec sum[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= width; i += 4 * kLanes) {
    for (int s = 0; s < 4; ++s) {
      const Vec v = hn::LoadU(d, x + i + s * kLanes);
      sum[s] = hn::MulAdd(v, v, sum[s]);
    }
  }
  float rest = 0;
  for (; i < width; ++i) rest += x[i] * x[i];
  const Vec all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  return (hn::GetLane(hn::SumOfLanes(d, all)) + rest) / static_cast<float>(width);
}

void normalise(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  const Tag d;
  const float factor = 1.0F / std::sqrt(mean_square(x, width) + eps);
  const Vec by = hn::Set(d, factor);
  over(
      width,
      [&](std::int64_t i) {
        hn::StoreU(hn::Mul(hn::Mul(hn::LoadU(d, x + i), by), hn::LoadU(d, weight + i)), d, out + i);
      },
      [&](std::int64_t i) { out[i] = x[i] * factor * weight[i]; });
}

void add(const float* x, const float* y, std::int64_t width, float* out) {
  const Tag d;
  over(
      width,
      [&](std::int64_t i) { hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i); },
      [&](std::int64_t i) { out[i] = x[i] + y[i]; });
}

void add_scaled(const float* x, float factor, std::int64_t width, float* out) {
  const Tag d;
  const Vec by = hn::Set(d, factor);
  over(
      width,
      [&](std::int64_t i) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), by, hn::LoadU(d, out + i)), d, out + i);
      },
      [&](std::int64_t i) { out[i] = std::fma(x[i], factor, out[i]); });
}

// silu(x) = x / (1 + exp(-x)). Exp is good up to 104; beyond 88 the quotient is as good as zero.
HWY_INLINE Vec silu(Vec x) {
  const Tag d;
  const Vec e = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 88.0F)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0F), e));
}

void silu_mul(const float* gate, const float* up, std::int64_t width, float* out) {
  const Tag d;
  over(
      width,
      [&](std::int64_t i) {
        hn::StoreU(hn::Mul(silu(hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, out + i);
      },
      [&](std::int64_t i) { out[i] = hn::GetLane(silu(hn::Set(d, gate[i]))) * up[i]; });
}

}  // namespace tessera::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {

HWY_EXPORT(normalise);
HWY_EXPORT(add);
HWY_EXPORT(add_scaled);
HWY_EXPORT(silu_mul);

void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out) {
  HWY_DYNAMIC_DISPATCH(normalise)(x, weight, width, eps, out);
}

void add_rms_norm_row(float* residual, const float* delta, const float* weight, std::int64_t width, float eps,
                      float* out) {
  HWY_DYNAMIC_DISPATCH(add)(residual, delta, width, residual);
  HWY_DYNAMIC_DISPATCH(normalise)(residual, weight, width, eps, out);
}

void add_row(const float* x, const float* y, std::int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(add)(x, y, width, out);
}

void add_scaled_row(const float* x, float factor, std::int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(add_scaled)(x, factor, width, out);
}

void silu_mul_row(const float* gate, const float* up, std::int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(silu_mul)(gate, up, width, out);
}

void rotate_interleaved(float* head, const float* cos, const float* sin, std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = head[2 * i];
    const float b = head[2 * i + 1];
    head[2 * i] = a * cos[i] - b * sin[i];
    head[2 * i + 1] = a * sin[i] + b * cos[i];
  }
}

void rotate_halves(float* head, const float* cos, const float* sin, std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const float a = head[i];
    const float b = head[i + pairs];
    head[i] = a * cos[i] - b * sin[i];
    head[i + pairs] = a * sin[i] + b * cos[i];
  }
}

}  // namespace tessera
#endif

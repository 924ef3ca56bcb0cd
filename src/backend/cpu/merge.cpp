#include "backend/cpu/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// log of the sum over parts of exp(lse); -inf when no part has rows.
float total_of(const Parts& lses, std::int64_t token, std::int64_t head) {
  float peak = kNone;
  for (std::int64_t p = 0; p < lses.count; ++p) peak = std::max(peak, lses[p].row<float>(token)[head]);
  if (peak == kNone) return kNone;
  float sum = 0;
  for (std::int64_t p = 0; p < lses.count; ++p) sum += std::exp(lses[p].row<float>(token)[head] - peak);
  return peak + std::log(sum);
}

}  // namespace

void merge_row(const Parts& outs, const Parts& lses, std::int64_t heads, std::int64_t token,
               const Tensor& out, const Tensor& lse) {
  const std::int64_t dim = out.cols / heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    const float total = total_of(lses, token, h);
    float* merged = out.row<float>(token) + h * dim;
    bool first = true;
    for (std::int64_t p = 0; p < outs.count; ++p) {
      const float own = lses[p].row<float>(token)[h];
      if (own == kNone) continue;  // its output may hold anything, and 0 x NaN is NaN
      const float weight = std::exp(own - total);
      const float* part = outs[p].row<float>(token) + h * dim;
      for (std::int64_t i = 0; i < dim; ++i) merged[i] = (first ? 0.0F : merged[i]) + weight * part[i];
      first = false;
    }
    if (first) std::fill_n(merged, dim, 0.0F);
    if (lse.data != nullptr) lse.row<float>(token)[h] = total;
  }
}

void weigh_row(const Parts& lses, std::int64_t own, std::int64_t heads, std::int64_t token, const Tensor& x) {
  const std::int64_t dim = x.cols / heads;
  for (std::int64_t h = 0; h < heads; ++h) {
    const float part = lses[own].row<float>(token)[h];
    const float weight = part == kNone ? 0.0F : std::exp(part - total_of(lses, token, h));
    float* values = x.row<float>(token) + h * dim;
    for (std::int64_t i = 0; i < dim; ++i) values[i] = part == kNone ? 0.0F : weight * values[i];
  }
}

}  // namespace tessera

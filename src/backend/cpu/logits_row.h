// Passes over one row of logits.
#pragma once

#include <cstdint>

namespace tessera {

struct RowPeak {
  float peak;  // largest value; NaN is ignored
  bool has_nan;
};
RowPeak row_peak(const float* logits, std::int64_t vocab);

// weights[i] = exp((logits[i] - peak) * inverse_temperature); 0 for -inf.
void row_weights(const float* logits, std::int64_t vocab, float peak, float inverse_temperature,
                 float* weights);

// The sum, in f64 and in one order; row_sum_below: of the weights under `floor` alone.
double row_sum(const float* weights, std::int64_t count);
double row_sum_below(const float* weights, std::int64_t count, float floor);

// Ids of the values that are at least `least`, in order; returns how many. ids [count + 16]: whole vectors
// are stored.
std::int64_t collect_at_least(const float* values, std::int64_t count, float least, std::int32_t* ids);

// peaks [ceil(count / kPeakBlock)]: the largest value of each block. Their k-th largest is at most the k-th
// largest of all values.
inline constexpr std::int64_t kPeakBlock = 64;
void block_peaks(const float* values, std::int64_t count, float* peaks);

}  // namespace tessera

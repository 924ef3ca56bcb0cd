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

// The sum, in f64 and in one order.
double row_sum(const float* weights, std::int64_t count);

}  // namespace tessera

// Element-wise and row-wise arithmetic on f32 rows.
#pragma once

#include <cstdint>

namespace tessera {

// out = weight * x / sqrt(mean(x^2) + eps). x and out may be the same row.
void rms_norm_row(const float* x, const float* weight, std::int64_t width, float eps, float* out);

// residual += delta, then out = the norm of residual.
void add_rms_norm_row(float* residual, const float* delta, const float* weight, std::int64_t width, float eps,
                      float* out);

void add_row(const float* x, const float* y, std::int64_t width, float* out);           // out = x + y
void add_scaled_row(const float* x, float factor, std::int64_t width, float* out);      // out += factor * x
void silu_mul_row(const float* gate, const float* up, std::int64_t width, float* out);  // silu(gate) * up

// Rotates pairs of one head by the angles whose cosines and sines are given, [pairs] each.
void rotate_interleaved(float* head, const float* cos, const float* sin, std::int64_t pairs);  // (2i, 2i + 1)
void rotate_halves(float* head, const float* cos, const float* sin, std::int64_t pairs);  // (i, i + pairs)

}  // namespace tessera

// Products of few rows with packed panels, widening the weights in registers; and the widening of a block of
// a panel to f32 for products of many rows. Both give the same bits.
#pragma once

#include <cstdint>

#include "backend/cpu/packed_matrix.h"

namespace tessera {

// Rows that panel_product takes at most: more would not fit the registers of this machine.
int most_fused_rows();

// The instruction set that the kernels were picked for: "AVX-512", "AVX2", "portable".
const char* instruction_set();

// Inputs that are summed before they are scaled and join the total.
constexpr std::int64_t sum_length(WeightFormat format) {
  return format == WeightFormat::kInt4Group32 ? kInt4Group : kDepthBlock;
}

// y [rows, out] = x W^T for the outputs of panels [first, last).
struct PanelProduct {
  const float* x[4] = {};  // [rows], each [in]
  float* y = nullptr;
  std::int64_t y_stride = 0;
  int rows = 0;  // 1..most_fused_rows(), which is at most 4
};
void panel_product(const PackedMatrix& matrix, std::int64_t first, std::int64_t last,
                   const PanelProduct& product);

// Inputs [from, from + count) of a panel as f32: dst [count, 32], still to be multiplied by unpack_scale's
// values. `from` is a multiple of 8.
void unpack_block(const PackedMatrix& matrix, std::int64_t panel, std::int64_t from, std::int64_t count,
                  float* dst);

// Scales of the outputs of a panel for the sum that starts at input `from`: dst [32]. Not for formats without
// scales.
void unpack_scale(const PackedMatrix& matrix, std::int64_t panel, std::int64_t from, float* dst);

}  // namespace tessera

// The layout in which the CPU keeps a weight matrix: outputs lie in vector lanes.
//
// 32 consecutive outputs form a panel; panels follow each other, and inside one the inputs follow each other:
//
//   f32    [panels][in][32] f32
//   bf16   [panels][in / 2][32][2] bf16           pairs of inputs, so that each is one shift or mask away
//   from f32 fp8    [panels][in][32] e4m3                  scale [panels][ceil(in / 128)][32] f32 int4
//   [panels][in / 8][32] words of 8 nibbles, lowest first, offset 8;  scale [panels][in / 32][32] bf16
//
// So a product with one row of activations and one with a thousand do the same operations for an output: a
// chain over the inputs, in their order, in the lane of that output. Outputs past the last, and the second
// input of an odd pair, are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "checkpoint/host_matrix.h"

namespace tessera {

inline constexpr std::int64_t kPanel = 32;        // outputs; two AVX-512 or four AVX2 vectors of f32
inline constexpr std::int64_t kDepthBlock = 128;  // inputs that are summed before they join the total
inline constexpr std::int64_t kInt4Group = 32;    // inputs that share a scale

// A borrowed view of one packed matrix.
struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  std::int64_t out = 0;
  std::int64_t in = 0;
  const std::byte* data = nullptr;
  const std::byte* scale = nullptr;

  std::int64_t panels() const { return (out + kPanel - 1) / kPanel; }
};

PackedMatrix packed(const Weight& weight);
PackedMatrix packed(const WeightStack& stack, std::int64_t index);

// Bytes of one panel's data and scales.
std::int64_t panel_data_bytes(WeightFormat format, std::int64_t in);
std::int64_t panel_scale_bytes(WeightFormat format, std::int64_t in);

// Fills panel `panel` of a matrix that consists of `row_parts` on top of each other. data and scale: that
// panel's own bytes, zeroed before.
void pack_panel(std::span<const HostMatrix> row_parts, std::int64_t panel, std::byte* data, std::byte* scale);

// The same from f32 values [out, in]; format kF32 or kBF16 (rounded to nearest even).
void pack_panel_f32(WeightFormat format, std::span<const float> values, std::int64_t out, std::int64_t in,
                    std::int64_t panel, std::byte* data);

// Output row `row` as f32: dst [in].
void unpack_row(const PackedMatrix& matrix, std::int64_t row, float* dst);

}  // namespace tessera

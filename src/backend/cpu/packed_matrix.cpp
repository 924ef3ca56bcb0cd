#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class T>
T load(const void* base, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(base) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

constexpr bool is_nan_code(std::uint8_t code) { return (code & 0x7f) == 0x7f; }

// One source row into its lane. Lanes are strided writes inside a panel, which stays in the cache.
void pack_lane(const HostMatrix& part, std::int64_t row, std::int64_t lane, std::byte* data,
               std::byte* scale) {
  const auto* src = static_cast<const char*>(part.data) + row * part.data_stride;
  switch (part.format) {
    case WeightFormat::kF32: {
      auto* dst = reinterpret_cast<float*>(data) + lane;
      for (std::int64_t k = 0; k < part.in; ++k) dst[k * kPanel] = load<float>(src, k);
      return;
    }
    case WeightFormat::kBF16: {
      auto* dst = reinterpret_cast<std::uint16_t*>(data) + lane * 2;
      for (std::int64_t k = 0; k < part.in; ++k) {
        dst[k / 2 * (kPanel * 2) + k % 2] = load<std::uint16_t>(src, k);
      }
      return;
    }
    case WeightFormat::kFp8Block128: {
      auto* dst = reinterpret_cast<std::uint8_t*>(data) + lane;
      auto* scales = reinterpret_cast<float*>(scale) + lane;
      const auto* src_scale =
          static_cast<const char*>(part.scale) + (part.scale_row_offset + row) / 128 * part.scale_stride;
      for (std::int64_t b = 0; b < div_up(part.in, kDepthBlock); ++b) {
        float block_scale = load<float>(src_scale, b);
        for (std::int64_t k = b * kDepthBlock; k < std::min(part.in, (b + 1) * kDepthBlock); ++k) {
          const auto code = static_cast<std::uint8_t>(src[k]);
          // The kernels read 0x7f as 480. A NaN weight makes the whole block's sum NaN, and so does a NaN
          // scale.
          if (is_nan_code(code)) block_scale = std::numeric_limits<float>::quiet_NaN();
          dst[k * kPanel] = code;
        }
        scales[b * kPanel] = block_scale;
      }
      return;
    }
    case WeightFormat::kInt4Group32: {
      auto* dst = reinterpret_cast<std::uint32_t*>(data) + lane;
      for (std::int64_t w = 0; w < part.in / 8; ++w) dst[w * kPanel] = load<std::uint32_t>(src, w);
      auto* scales = reinterpret_cast<std::uint16_t*>(scale) + lane;
      const auto* src_scale = static_cast<const char*>(part.scale) + row * part.scale_stride;
      for (std::int64_t g = 0; g < part.in / kInt4Group; ++g) {
        scales[g * kPanel] = load<std::uint16_t>(src_scale, g);
      }
      return;
    }
  }
}

}  // namespace

PackedMatrix packed(const Weight& weight) {
  return {.format = weight.format,
          .out = weight.out,
          .in = weight.in,
          .data = static_cast<const std::byte*>(weight.data),
          .scale = static_cast<const std::byte*>(weight.scale)};
}

PackedMatrix packed(const WeightStack& stack, std::int64_t index) {
  TS_DCHECK(index >= 0 && index < stack.count, index, stack.count);
  PackedMatrix matrix{.format = stack.format, .out = stack.out, .in = stack.in};
  const std::int64_t panels = matrix.panels();
  matrix.data =
      static_cast<const std::byte*>(stack.data) + index * panels * panel_data_bytes(stack.format, stack.in);
  if (stack.scale != nullptr) {
    matrix.scale = static_cast<const std::byte*>(stack.scale) +
                   index * panels * panel_scale_bytes(stack.format, stack.in);
  }
  return matrix;
}

std::int64_t panel_data_bytes(WeightFormat format, std::int64_t in) {
  switch (format) {
    case WeightFormat::kF32:
      return in * kPanel * 4;
    case WeightFormat::kBF16:
      return div_up(in, 2) * 2 * kPanel * 2;
    case WeightFormat::kFp8Block128:
      return in * kPanel;
    case WeightFormat::kInt4Group32:
      return in / 2 * kPanel;
  }
  return 0;
}

std::int64_t panel_scale_bytes(WeightFormat format, std::int64_t in) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      return 0;
    case WeightFormat::kFp8Block128:
      return div_up(in, kDepthBlock) * kPanel * 4;
    case WeightFormat::kInt4Group32:
      return in / kInt4Group * kPanel * 2;
  }
  return 0;
}

void pack_panel(std::span<const HostMatrix> row_parts, std::int64_t panel, std::byte* data,
                std::byte* scale) {
  std::int64_t part_first = 0;  // first row of the part in the whole matrix
  const std::int64_t first = panel * kPanel;
  const std::int64_t last = first + kPanel;
  for (const HostMatrix& part : row_parts) {
    const std::int64_t from = std::max(first, part_first);
    const std::int64_t to = std::min(last, part_first + part.out);
    for (std::int64_t row = from; row < to; ++row)
      pack_lane(part, row - part_first, row - first, data, scale);
    part_first += part.out;
  }
}

void pack_panel_f32(WeightFormat format, std::span<const float> values, std::int64_t out, std::int64_t in,
                    std::int64_t panel, std::byte* data) {
  for (std::int64_t row = panel * kPanel; row < std::min(out, (panel + 1) * kPanel); ++row) {
    const float* src = values.data() + row * in;
    const std::int64_t lane = row - panel * kPanel;
    if (format == WeightFormat::kF32) {
      auto* dst = reinterpret_cast<float*>(data) + lane;
      for (std::int64_t k = 0; k < in; ++k) dst[k * kPanel] = src[k];
    } else {
      auto* dst = reinterpret_cast<std::uint16_t*>(data) + lane * 2;
      for (std::int64_t k = 0; k < in; ++k) dst[k / 2 * (kPanel * 2) + k % 2] = BF16(src[k]).bits;
    }
  }
}

void unpack_row(const PackedMatrix& matrix, std::int64_t row, float* dst) {
  TS_DCHECK(row >= 0 && row < matrix.out, row, matrix.out);
  const std::int64_t panel = row / kPanel;
  const std::int64_t lane = row % kPanel;
  const std::byte* data = matrix.data + panel * panel_data_bytes(matrix.format, matrix.in);
  const std::byte* scale = matrix.scale + panel * panel_scale_bytes(matrix.format, matrix.in);
  switch (matrix.format) {
    case WeightFormat::kF32:
      for (std::int64_t k = 0; k < matrix.in; ++k) dst[k] = load<float>(data, k * kPanel + lane);
      return;
    case WeightFormat::kBF16:
      for (std::int64_t k = 0; k < matrix.in; ++k) {
        BF16 value;
        value.bits = load<std::uint16_t>(data, k / 2 * (kPanel * 2) + lane * 2 + k % 2);
        dst[k] = static_cast<float>(value);
      }
      return;
    case WeightFormat::kFp8Block128:
      for (std::int64_t k = 0; k < matrix.in; ++k) {
        F8E4M3 code;
        code.bits = load<std::uint8_t>(data, k * kPanel + lane);
        dst[k] = static_cast<float>(code) * load<float>(scale, k / kDepthBlock * kPanel + lane);
      }
      return;
    case WeightFormat::kInt4Group32:
      for (std::int64_t k = 0; k < matrix.in; ++k) {
        const auto word = load<std::uint32_t>(data, k / 8 * kPanel + lane);
        BF16 group;
        group.bits = load<std::uint16_t>(scale, k / kInt4Group * kPanel + lane);
        const int nibble = static_cast<int>((word >> (4 * (k % 8))) & 15U) - 8;
        dst[k] = static_cast<float>(nibble) * static_cast<float>(group);
      }
      return;
  }
}

}  // namespace tessera

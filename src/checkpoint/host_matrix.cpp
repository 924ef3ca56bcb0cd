#include "checkpoint/host_matrix.h"

#include <cstring>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kBlock = 128;     // rows and columns of an fp8 scale
constexpr std::int64_t kGroup = 32;      // columns of an int4 scale
constexpr std::int64_t kCodesAWord = 8;  // int4 codes in 32 bits

std::int64_t blocks(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

const std::byte* at(const void* base, std::int64_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

template <class T>
void widen(const void* row, std::int64_t count, float* dst) {
  const T* values = static_cast<const T*>(row);
  for (std::int64_t i = 0; i < count; ++i) dst[i] = static_cast<float>(values[i]);
}

}  // namespace

std::int64_t stored_bytes(WeightFormat format, std::int64_t cols) {
  switch (format) {
    case WeightFormat::kF32:
      return cols * 4;
    case WeightFormat::kBF16:
      return cols * 2;
    case WeightFormat::kFp8Block128:
      return cols;
    case WeightFormat::kInt4Group32:
      return cols / kCodesAWord * 4;
  }
  return 0;
}

HostMatrix HostMatrix::row_range(std::int64_t first, std::int64_t count) const {
  TS_CHECK(first >= 0 && count >= 0 && first + count <= out, first, count, out);
  HostMatrix part = *this;
  part.out = count;
  part.data = at(data, first * data_stride);
  if (format == WeightFormat::kInt4Group32) {
    part.scale = at(scale, first * scale_stride);
  } else if (format == WeightFormat::kFp8Block128) {
    const std::int64_t row = scale_row_offset + first;
    part.scale = at(scale, row / kBlock * scale_stride);
    part.scale_row_offset = row % kBlock;
  }
  return part;
}

HostMatrix HostMatrix::col_range(std::int64_t first, std::int64_t count) const {
  TS_CHECK(first >= 0 && count >= 0 && first + count <= in, first, count, in);
  TS_CHECK(can_cut_columns(first) && can_cut_columns(first + count), first, count, in, name_of(format));
  HostMatrix part = *this;
  part.in = count;
  part.data = at(data, stored_bytes(format, first));
  if (format == WeightFormat::kInt4Group32) {
    part.scale = at(scale, first / kGroup * 2);
  } else if (format == WeightFormat::kFp8Block128) {
    part.scale = at(scale, first / kBlock * 4);
  }
  return part;
}

bool HostMatrix::can_cut_columns(std::int64_t at_column) const {
  if (at_column < 0 || at_column > in) return false;
  if (at_column == in) return true;
  if (format == WeightFormat::kInt4Group32) return at_column % kGroup == 0;
  if (format == WeightFormat::kFp8Block128) return at_column % kBlock == 0;
  return true;
}

void HostMatrix::dequantise_row(std::int64_t row, float* dst) const {
  TS_DCHECK(row >= 0 && row < out, row, out);
  const std::byte* values = at(data, row * data_stride);
  switch (format) {
    case WeightFormat::kF32:
      std::memcpy(dst, values, static_cast<std::size_t>(in) * sizeof(float));
      return;
    case WeightFormat::kBF16:
      widen<BF16>(values, in, dst);
      return;
    case WeightFormat::kFp8Block128: {
      widen<F8E4M3>(values, in, dst);
      const auto* scales =
          reinterpret_cast<const float*>(at(scale, (scale_row_offset + row) / kBlock * scale_stride));
      for (std::int64_t i = 0; i < in; ++i) dst[i] *= scales[i / kBlock];
      return;
    }
    case WeightFormat::kInt4Group32: {
      const auto* words = reinterpret_cast<const std::uint32_t*>(values);
      const auto* scales = reinterpret_cast<const BF16*>(at(scale, row * scale_stride));
      for (std::int64_t i = 0; i < in; ++i) {
        const std::uint32_t code = words[i / kCodesAWord] >> (4 * (i % kCodesAWord)) & 15u;
        dst[i] = static_cast<float>(static_cast<int>(code) - 8) * static_cast<float>(scales[i / kGroup]);
      }
      return;
    }
  }
}

std::int64_t HostMatrix::bytes() const {
  std::int64_t scales = 0;
  if (format == WeightFormat::kInt4Group32) scales = out * (in / kGroup) * 2;
  if (format == WeightFormat::kFp8Block128)
    scales = blocks(scale_row_offset + out, kBlock) * blocks(in, kBlock) * 4;
  return out * stored_bytes(format, in) + scales;
}

}  // namespace tessera

// A weight matrix as it lies in a checkpoint file: borrowed bytes and their format. What a back-end prepares
// its own form from.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/dtype.h"

namespace tessera {

enum class WeightFormat : std::uint8_t {
  kF32,
  kBF16,
  kFp8Block128,  // e4m3 with one f32 scale (a multiplier) for each 128 x 128 block (DeepSeek-V3)
  kInt4Group32,  // offset-binary nibbles, one bf16 scale for each 32 inputs (compressed-tensors
                 // pack-quantized)
};

constexpr std::string_view name_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kFp8Block128:
      return "fp8 128x128";
    case WeightFormat::kInt4Group32:
      return "int4 g32";
  }
  return "?";
}

// Columns of a row to bytes of data; `cols` is a place where the format can be cut, or the width.
std::int64_t stored_bytes(WeightFormat format, std::int64_t cols);

// y = x W^T with W [out, in]. The bytes belong to the Checkpoint, which must outlive this view.
struct HostMatrix {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t out = 0;
  std::int64_t in = 0;
  const void* data = nullptr;    // [out, in], for int4 [out, in / 8] words of eight nibbles, lowest first
  std::int64_t data_stride = 0;  // bytes from one output row to the next
  const void* scale =
      nullptr;  // int4: bf16 [out, in / 32]; fp8: f32 [ceil(out / 128), ceil(in / 128)]; else null
  std::int64_t scale_stride = 0;      // bytes from one row of scales to the next
  std::int64_t scale_row_offset = 0;  // fp8: this view's first row, counted inside its first 128-row block

  // Views for sharding. A cut that the format cannot express (inside a group of 32 inputs, or inside a
  // 128-column block) is our mistake and aborts; callers ask can_cut_columns first.
  HostMatrix row_range(std::int64_t first, std::int64_t count) const;
  HostMatrix col_range(std::int64_t first, std::int64_t count) const;
  bool can_cut_columns(std::int64_t at) const;

  // Row `row` as f32 values into dst[in]: exact for f32, bf16 and fp8 x scale; int4 code x scale in f32.
  void dequantise_row(std::int64_t row, float* dst) const;

  std::int64_t bytes() const;  // data and scales
};

}  // namespace tessera

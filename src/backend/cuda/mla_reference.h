// Decode attention in float64 on the CPU, one query row at a time: what the kernels are compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/kv_format.h"

namespace tessera::cuda {

// One stored row as 576 real values. `row` points at its first byte.
std::vector<double> mla_row_values(KvFormat format, const std::uint8_t* row, double scale);

struct MlaReferenceWork {
  std::span<const std::uint16_t> q;  // [576] bf16 bits, one token and head
  KvFormat format = KvFormat::kBF16;
  const std::uint8_t* kv = nullptr;  // [blocks, 64, row_bytes]
  double kv_scale = 1.0;
  std::span<const std::int32_t> block_table;  // [max_blocks] of the sequence
  std::int32_t rows = 0;                      // that the token sees
  double softmax_scale = 1.0;
};
struct MlaReferenceResult {
  std::vector<double> out;  // [512]
  double lse = 0.0;         // natural log; -inf without rows
};
MlaReferenceResult mla_reference(const MlaReferenceWork& work);

float bf16_value(std::uint16_t bits);
std::uint16_t bf16_bits(float value);  // round to nearest even
float e4m3_value(std::uint8_t bits);   // 0x7F and 0xFF are NaN
std::uint8_t e4m3_bits(float value);   // round to nearest even, saturating at 448

}  // namespace tessera::cuda

// Scratch of one call over a mixture of experts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace tessera::cuda {

// Rows [first, first + count) of x meet one matrix.
struct ProductItem {
  std::int32_t matrix;
  std::int32_t first;
  std::int32_t count;
};

struct ExpertLimits {
  std::int64_t tokens = 0;
  std::int64_t top_k = 0;
  std::int64_t width = 0;   // of an expert: half of gate_up
  std::int64_t hidden = 0;  // columns of down's result
};

// A slice of tokens runs at a time, so that partial results of a long prompt stay of bounded size.
inline constexpr std::int64_t kExpertSlice = 4096;

struct ExpertLayout {  // offsets in bytes
  std::size_t pair_row = 0;
  std::size_t pair_place = 0;
  std::size_t items = 0;
  std::size_t item_count = 0;
  std::size_t pair_count = 0;
  std::size_t pair_scale = 0;
  std::size_t gate_up = 0;
  std::size_t hidden = 0;
  std::size_t parts = 0;
  std::size_t bytes = 0;  // of all
};

// Rows of x of a product that are put into the order of wgmma at a time (backend/cuda/product_many_sm90.h):
// what the L2 cache still has when they are read.
inline constexpr std::int64_t kOrderedRows = 2048;
// With what each row was divided by.
constexpr std::size_t ordered_bytes(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>((rows + 63) / 64 * 64 * 4 + rows * cols * 2);
}

ExpertLayout expert_layout(const ExpertLimits& limits, DType dtype);

}  // namespace tessera::cuda

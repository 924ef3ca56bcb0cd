// C (+)= A B on f32 blocks: the one inner product that all matrix products and attentions of this back-end
// end in.
//
// Every element of C is one chain of fused multiply-adds over the depth, in order, in its own lane; nothing
// about a neighbour row or column can change it.
#pragma once

#include <cstdint>

namespace tessera {

// Row stride of an A block that was copied for multiply_fixed: 128 values and one cache line, so that rows
// fall into different cache sets and the compiler knows every address.
inline constexpr std::int64_t kFixedStride = 144;
inline constexpr std::int64_t kColumnMultiple = 16;  // of `cols`; B and C are readable that far

struct BlockProduct {
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  const float* b = nullptr;  // [depth, cols]
  std::int64_t b_stride = 0;
  float* c = nullptr;  // [rows, cols]
  std::int64_t c_stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // a multiple of kColumnMultiple
  std::int64_t depth = 0;
  bool first = true;             // C counts as zero before
  const float* scale = nullptr;  // [cols], or null: C += sum x scale
};

void multiply_rows(const BlockProduct& product);     // A [rows, depth], rows a_stride apart
void multiply_fixed(const BlockProduct& product);    // the same with a_stride = kFixedStride
void multiply_columns(const BlockProduct& product);  // A [depth, rows], rows of depth a_stride apart

}  // namespace tessera

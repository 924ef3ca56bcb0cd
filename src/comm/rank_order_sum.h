// The one order in which ranks' contributions are added: 0, 1, 2, … in f32, rounded once to the result's
// type.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace tessera {

// out[i] = in[0][first + i] + in[1][first + i] + …; kF32 or kBF16. `out` may lie outside every `in` only.
void sum_in_rank_order(std::span<const void* const> in, std::int64_t first, DType dtype, std::int64_t count,
                       void* out);

}  // namespace tessera

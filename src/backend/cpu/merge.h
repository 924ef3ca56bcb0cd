// Attention over all rows of a sequence from attention over parts of them, merged by log-sum-exp: one token
// at a time, natural logarithms, f32. The formulas are at Backend::merge_partials.
#pragma once

#include <cstdint>

#include "backend/backend.h"

namespace tessera {

void merge_row(const Parts& outs, const Parts& lses, std::int64_t heads, std::int64_t token,
               const Tensor& out, const Tensor& lse);
void weigh_row(const Parts& lses, std::int64_t own, std::int64_t heads, std::int64_t token, const Tensor& x);

}  // namespace tessera

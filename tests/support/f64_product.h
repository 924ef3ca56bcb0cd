// For references in float64: a checkpoint's matrix times a vector.
#pragma once

#include <vector>

#include "checkpoint/host_matrix.h"

namespace tessera::test {

using Row = std::vector<double>;

inline Row multiply(const HostMatrix& w, const Row& x) {
  Row y(static_cast<std::size_t>(w.out));
  std::vector<float> row(static_cast<std::size_t>(w.in));
  for (std::int64_t o = 0; o < w.out; ++o) {
    w.dequantise_row(o, row.data());
    for (std::size_t i = 0; i < row.size(); ++i)
      y[static_cast<std::size_t>(o)] += static_cast<double>(row[i]) * x[i];
  }
  return y;
}

}  // namespace tessera::test

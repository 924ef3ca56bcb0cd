// How rows of a checkpoint lie in staging memory on their way to the device: values, then their scales, each
// row after the other.
#pragma once

#include <cstdint>

#include "checkpoint/host_matrix.h"

namespace tessera::cuda {

struct StagedRows {
  std::int64_t row_bytes = 0;        // of values
  std::int64_t scale_rows = 0;       // 0: the format has no scales
  std::int64_t scale_cols = 0;       // scales in a row of them
  std::int64_t scale_row_bytes = 0;  // likewise
  std::int64_t scale_at = 0;         // where scales begin; values begin at 0
  std::int64_t bytes = 0;            // of all, a multiple of kStagingAlign
};
inline constexpr std::int64_t kStagingAlign = 256;

StagedRows staged(const HostMatrix& rows);

// The most rows from the first on that fit in `room` bytes; 0: not even one.
std::int64_t rows_that_fit(const HostMatrix& rows, std::int64_t room);

}  // namespace tessera::cuda

#include "backend/cuda_layout/staging_layout.h"

#include <algorithm>

namespace tessera::cuda {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kStagingAlign - 1) / kStagingAlign * kStagingAlign;
}

}  // namespace

StagedRows staged(const HostMatrix& rows) {
  StagedRows staged{.row_bytes = stored_bytes(rows.format, rows.in)};
  if (rows.format == WeightFormat::kFp8Block128) {
    staged.scale_rows = (rows.scale_row_offset + rows.out + 127) / 128;
    staged.scale_cols = (rows.in + 127) / 128;
    staged.scale_row_bytes = staged.scale_cols * 4;
  } else if (rows.format == WeightFormat::kInt4Group32) {
    staged.scale_rows = rows.out;
    staged.scale_cols = rows.in / 32;
    staged.scale_row_bytes = staged.scale_cols * 2;
  }
  staged.scale_at = aligned(staged.row_bytes * rows.out);
  staged.bytes = staged.scale_at + aligned(staged.scale_rows * staged.scale_row_bytes);
  return staged;
}

std::int64_t rows_that_fit(const HostMatrix& rows, std::int64_t room) {
  // Bytes grow with rows.
  std::int64_t fits = 0;
  for (std::int64_t too_many = rows.out + 1; too_many - fits > 1;) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (staged(rows.row_range(0, middle)).bytes <= room ? fits : too_many) = middle;
  }
  return fits;
}

}  // namespace tessera::cuda

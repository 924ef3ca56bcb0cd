// Rows as they lie in a checkpoint, on the device, into the device layout.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "checkpoint/host_matrix.h"

namespace tessera::cuda {

struct RepackRows {
  const void* data = nullptr;   // [rows, cols] in the checkpoint's format, on the device
  const void* scale = nullptr;  // as in HostMatrix, rows dense; null where there is none
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t scale_cols = 0;        // scales in a row of them
  std::int64_t scale_row_offset = 0;  // fp8: of the first row, inside its block of 128
  std::int64_t first_row = 0;         // of the matrix that is being filled
  std::int64_t padded_cols = 0;       // likewise
  bool to_bf16 = false;               // f32 rows are rounded and tiled
  void* to_data = nullptr;
  void* to_scale = nullptr;
  std::uint32_t* largest_scale = nullptr;  // int4: raised where a scale is larger
};
void launch_repack(const RepackRows& work, cudaStream_t stream);

}  // namespace tessera::cuda

// Weights from checkpoint bytes to the device layout (weight_layout.h): rows are copied over as they lie in
// the file and rearranged on the device, at memory speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda_layout/weight_layout.h"

namespace tessera::cuda {

TiledWeight tiled(const Weight& weight);
TiledWeight tiled(const WeightStack& stack);

Buffer allocate_zeroed(std::size_t bytes);

// Start-up only. Everything is copied when a call returns.
class WeightStore {
 public:
  // keep_f32: f32 matrices stay f32; else they are rounded to bf16, as the activations are.
  WeightStore(cudaStream_t stream, bool keep_f32) : stream_(stream), keep_f32_(keep_f32) {}

  WeightStack stack(std::int64_t count, const std::function<std::vector<HostMatrix>(std::int64_t)>& parts);
  WeightStack stack_of_values(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                              std::span<const float> values);
  Weight matrix(std::span<const HostMatrix> row_parts);
  void forget_staging() {
    staging_.reset();
    staging_bytes_ = 0;
  }

 private:
  WeightStack empty(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in) const;
  void fill(const WeightStack& stack, std::int64_t index, std::span<const HostMatrix> parts);
  void fill_rows(const WeightStack& stack, std::int64_t index, std::int64_t first_row,
                 const HostMatrix& part);
  std::byte* staging(std::size_t bytes);
  WeightFormat stored_format(WeightFormat format) const {
    return format == WeightFormat::kF32 && !keep_f32_ ? WeightFormat::kBF16 : format;
  }

  cudaStream_t stream_;
  bool keep_f32_;
  DeviceBytes staging_;
  std::size_t staging_bytes_ = 0;
};

}  // namespace tessera::cuda

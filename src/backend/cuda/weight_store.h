// Weights from checkpoint bytes to the device layout (weight_layout.h): rows travel as they lie in the file
// (WeightUpload) and are rearranged on the device, at memory speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/weight_upload.h"
#include "backend/cuda_layout/weight_layout.h"

namespace tessera::cuda {

TiledWeight tiled(const Weight& weight);
TiledWeight tiled(const WeightStack& stack);

Buffer allocate_zeroed(std::size_t bytes);

// Start-up only. When a call returns, the caller's views have been read and may go; the device may still be
// at work, and the stream's later work finds what it makes.
class WeightStore {
 public:
  struct Options {
    bool keep_f32 = false;  // f32 matrices stay f32; else they are rounded to bf16, as the activations are
    int readers = 1;        // threads that read files
  };
  WeightStore(cudaStream_t stream, const Options& options)
      : stream_(stream), keep_f32_(options.keep_f32), upload_(stream, options.readers) {}

  WeightStack stack(std::int64_t count, const std::function<std::vector<HostMatrix>(std::int64_t)>& parts);
  WeightStack stack_of_values(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                              std::span<const float> values);
  Weight matrix(std::span<const HostMatrix> row_parts);
  Buffer vector(std::span<const float> values);  // as they are
  // Gives the memory and the threads of loading back; a later call takes them again.
  void loading_is_over() { upload_.release(); }

 private:
  WeightStack empty(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in) const;
  void fill(const WeightStack& stack, std::int64_t index, std::span<const HostMatrix> parts);
  void fill_rows(const WeightStack& stack, std::int64_t index, std::int64_t first_row,
                 const HostMatrix& part);
  template <class Work>
  auto loaded(const Work& work);
  WeightFormat stored_format(WeightFormat format) const {
    return format == WeightFormat::kF32 && !keep_f32_ ? WeightFormat::kBF16 : format;
  }

  cudaStream_t stream_;
  bool keep_f32_;
  WeightUpload upload_;
};

}  // namespace tessera::cuda

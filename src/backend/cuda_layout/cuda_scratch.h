// What Backend::reserve of the CUDA back-end takes on the device, in bytes: the back-end asks for exactly
// this, and a plan for a GPU that is not there counts it.
#pragma once

#include <cstddef>
#include <span>

#include "backend/cuda_layout/attention_layout.h"
#include "backend/cuda_layout/expert_layout.h"
#include "backend/cuda_layout/sampler_layout.h"

namespace tessera::cuda {

struct CudaScratch {
  AttentionScratch attention;
  std::size_t experts = 0;  // and, between their calls, rows of x in another order of columns
  std::size_t argmax = 0;
  SamplerLayout sampler;

  std::size_t sum() const { return attention.sum() + experts + argmax + sampler.device_bytes(); }
};

struct CudaScratchChoice {
  DeviceTraits device;
  DType activation = DType::kBF16;
  bool batch_invariant = false;
};
// After these calls of reserve(), one for each model on the device: each part is as large as the largest
// asks.
CudaScratch cuda_scratch(std::span<const Backend::Limits> reserved, const CudaScratchChoice& choice);

}  // namespace tessera::cuda

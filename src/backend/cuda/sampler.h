// Sampling on the device: one block a row of logits. What a row needs besides its logits travels in one
// packed copy; what was drawn comes back in another.
//
// The draw is the CPU's: the same masks and penalties in the same order, the same random number, the inverse
// of the cumulative distribution in the order of ids. Weights are summed as 40-bit fixed point, so that no
// sum depends on the order in which threads meet.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/device.h"
#include "backend/cuda/stream_wait.h"
#include "backend/cuda_layout/sampler_layout.h"

namespace tessera::cuda {

struct SampleLaunch {
  Tensor logits;                      // f32, overwritten
  const PackedRow* rows = nullptr;    // on the device
  const std::byte* packed = nullptr;  // what their lists point into
  std::uint32_t* marks = nullptr;     // [rows, ceil(vocab / 32)]
  DrawnToken* drawn = nullptr;        // [rows]
};
void launch_sample(const SampleLaunch& launch, cudaStream_t stream);

struct ScoreLaunch {
  Tensor logits;                          // f32, as the model gave them
  const std::int32_t* targets = nullptr;  // [rows]; null: what was drawn
  const DrawnToken* drawn = nullptr;      // [rows]
  const std::int32_t* top = nullptr;      // [rows] alternatives wanted; negative: the row is left out
  std::int32_t top_stride = 0;
  ScoredToken* scored = nullptr;       // [rows]
  std::int32_t* top_tokens = nullptr;  // [rows, top_stride]
  float* top_logprobs = nullptr;       // [rows, top_stride]
};
void launch_score(const ScoreLaunch& launch, cudaStream_t stream);

class Sampler {
 public:
  Sampler(cudaStream_t stream, StreamWait& wait) : stream_(stream), wait_(wait) {}
  // kv_tokens: the longest list of tokens that a row may bring.
  void reserve(std::int64_t vocab, std::int64_t kv_tokens);
  std::size_t scratch_bytes() const { return layout_.device_bytes(); }

  // drafts: one a row, or none at all (Backend::verify).
  void sample(const Tensor& logits, std::span<const SamplingRow> rows, std::span<const DraftDraw> drafts,
              std::span<SampledToken> results);
  void score(const Tensor& logits, std::span<const std::int32_t> targets, std::int32_t top,
             std::span<SampledToken> results);

 private:
  static constexpr std::int64_t kWave = kSamplerWave;

  void sample_wave(const Tensor& logits, std::span<const SamplingRow> rows, std::span<SampledToken> results);
  std::size_t pack(const SamplingRow& row, const DraftDraw& draft, std::size_t index, std::size_t used);
  void take_scores(std::int64_t rows, std::int32_t top_stride, std::span<const std::int32_t> tops,
                   std::span<SampledToken> results);

  cudaStream_t stream_;
  StreamWait& wait_;
  SamplerLayout layout_;
  PinnedBytes host_packed_;
  DeviceBytes device_packed_;
  DeviceBytes marks_;
  DeviceBytes raw_;
  DeviceBytes device_results_;
  PinnedBytes host_results_;
};

}  // namespace tessera::cuda

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

namespace tessera::cuda {

// A list inside the packed copy.
struct PackedList {
  std::int64_t offset = 0;  // bytes
  std::int64_t count = 0;   // entries
};
struct PackedRow {
  float temperature = 1.0F;
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition = 1.0F;
  float frequency = 0.0F;
  float presence = 0.0F;
  std::int32_t top_k = 0;
  std::int32_t has_mask = 0;
  double uniform = 0.0;   // of the draw
  PackedList allowed;     // u64
  PackedList bias;        // (i32, f32)
  PackedList banned;      // i32
  PackedList prompt;      // i32
  PackedList out_counts;  // (i32, i32)
};
struct DrawnToken {
  std::int32_t token = -1;
  std::int32_t invalid = 1;
};
struct ScoredToken {
  std::int32_t token = -1;
  std::int32_t invalid = 1;
  float logprob = 0.0F;
  std::int32_t rank = 0;
};

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
  explicit Sampler(cudaStream_t stream) : stream_(stream) {}
  // Returns bytes of device memory. kv_tokens: the longest list of tokens that a row may bring.
  std::size_t reserve(std::int64_t vocab, std::int64_t kv_tokens);

  void sample(const Tensor& logits, std::span<const SamplingRow> rows, std::span<SampledToken> results);
  void score(const Tensor& logits, std::span<const std::int32_t> targets, std::int32_t top,
             std::span<SampledToken> results);

 private:
  static constexpr std::int64_t kWave = 64;  // rows at a time

  void sample_wave(const Tensor& logits, std::span<const SamplingRow> rows, std::span<SampledToken> results);
  std::size_t pack(const SamplingRow& row, std::size_t index, std::size_t used);
  void take_scores(std::int64_t rows, std::int32_t top_stride, std::span<const std::int32_t> tops,
                   std::span<SampledToken> results);

  cudaStream_t stream_;
  std::int64_t vocab_ = 0;
  std::int64_t list_limit_ = 0;   // tokens
  std::size_t packed_bytes_ = 0;  // of the two copies below, lists included
  Owned<std::byte*, cudaFreeHost> host_packed_;
  DeviceBytes device_packed_;
  DeviceBytes marks_;
  DeviceBytes raw_;  // [kWave, vocab] f32: logits before any change, where log-probabilities are wanted
  DeviceBytes device_results_;
  Owned<std::byte*, cudaFreeHost> host_results_;
  std::int64_t top_limit_ = 0;  // alternatives of a wave
};

}  // namespace tessera::cuda

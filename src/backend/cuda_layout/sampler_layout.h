// What sampling sends to the device and brings back, and the memory for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

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
  double uniform = 0.0;  // of the draw
  double accept = 0.0;   // of the decision on the draft
  std::int32_t draft = -1;
  float draft_prob = 1.0F;  // under the distribution that it was drawn from
  PackedList allowed;       // u64
  PackedList bias;          // (i32, f32)
  PackedList banned;        // i32
  PackedList prompt;        // i32
  PackedList out_counts;    // (i32, i32)
  PackedList draft_probs;   // f32, the whole distribution; empty: the row is sampled
  PackedList draft_ids;     // i32, the token of each entry; empty: entry i is token i
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

// Greedy choice: how many blocks share a row, rows at a time, and what they leave each other: the best of
// each piece and a count of arrivals a row.
inline constexpr std::int32_t kArgmaxPieces = 32;
inline constexpr std::int64_t kArgmaxRows = 256;
inline constexpr std::size_t kArgmaxScratchBytes = kArgmaxRows * (kArgmaxPieces * 8 + 4);

inline constexpr std::int64_t kSamplerWave = 64;  // rows at a time
inline constexpr std::size_t kSamplerAlign = 16;
inline constexpr std::size_t sampler_aligned(std::size_t bytes) {
  return (bytes + kSamplerAlign - 1) / kSamplerAlign * kSamplerAlign;
}

// How the results of a wave lie, on the device and in the host's copy.
struct SamplerResultLayout {
  static constexpr std::size_t kDrawn = 0;
  std::size_t scored, tops, targets, tokens, logprobs, bytes;
  SamplerResultLayout(std::int64_t rows, std::int64_t top_limit) {
    const auto n = static_cast<std::size_t>(rows);
    scored = sampler_aligned(n * sizeof(DrawnToken));
    tops = scored + sampler_aligned(n * sizeof(ScoredToken));
    targets = tops + sampler_aligned(n * 4);
    tokens = targets + sampler_aligned(n * 4);
    logprobs = tokens + sampler_aligned(static_cast<std::size_t>(top_limit) * 4);
    bytes = logprobs + sampler_aligned(static_cast<std::size_t>(top_limit) * 4);
  }
};

// Sizes of the sampler's device memory, in bytes.
struct SamplerLayout {
  std::int64_t vocab = 0;
  std::int64_t list_limit = 0;  // tokens of the longest list that a row may bring
  std::int64_t top_limit = 0;   // alternatives that a wave may ask for: at least a whole vocabulary
  std::size_t packed = 0;       // rows and their lists
  std::size_t marks = 0;
  std::size_t raw = 0;  // logits before any change, where log-probabilities are wanted
  std::size_t results = 0;

  std::size_t device_bytes() const { return packed + marks + raw + results; }
};
inline SamplerLayout sampler_layout(std::int64_t vocab, std::int64_t list_limit) {
  constexpr std::int64_t kTopLimit = 32768;
  SamplerLayout layout{.vocab = vocab, .list_limit = list_limit, .top_limit = std::max(kTopLimit, vocab)};
  // One row with every list at its longest, or a wave of modest ones.
  const std::size_t longest =
      static_cast<std::size_t>(list_limit) * 12 + static_cast<std::size_t>(vocab) * 21 + 8 * kSamplerAlign;
  layout.packed = sampler_aligned(kSamplerWave * sizeof(PackedRow)) + std::max(longest, std::size_t{1} << 20);
  layout.marks = static_cast<std::size_t>(kSamplerWave * ((vocab + 31) / 32 * 4));
  layout.raw = static_cast<std::size_t>(kSamplerWave * vocab * 4);
  layout.results = SamplerResultLayout(kSamplerWave, layout.top_limit).bytes;
  return layout;
}

}  // namespace tessera::cuda

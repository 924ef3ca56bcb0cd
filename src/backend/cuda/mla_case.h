// One decode problem with its data on host and device, for tests: random rows on shuffled pages, everything
// that must not be read poisoned, outputs poisoned before each run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/mla_decode.h"

namespace tessera::cuda {

struct MlaCaseOptions {
  KvFormat kv = KvFormat::kBF16;
  std::vector<std::int32_t> lengths = {};  // [seqs], rows visible to the last query token
  std::int32_t q_tokens = 1;
  std::int32_t heads = 64;
  bool explicit_rows =
      false;  // give query_rows: per-token counts as a context-parallel rank sees them, 0 among them
  bool out_f32 = true;
  std::int32_t fixed_split_tiles = 0;
  MlaKernel kernel = MlaKernel::kAuto;
  std::int32_t parts = 0;
  bool fp8_math = false;
  float kv_scale = 1.0F;  // of kFp8
  float q_spread = 1.0F;  // standard deviation of q; 8 makes the running maximum jump often
  std::uint64_t seed = 1;
};

struct MlaCaseOutput {
  std::vector<float> out;                                                        // [tokens, heads, 512]
  std::vector<float> lse;                                                        // [tokens, heads]
  friend bool operator==(const MlaCaseOutput&, const MlaCaseOutput&) = default;  // NaN never equals
};

// How far an output is from float64, over sampled (token, head) rows.
struct MlaCaseError {
  double out = 0.0;  // largest ||out - ref|| / ||ref|| of a row
  double lse = 0.0;  // largest |lse - ref|
  std::string
      first_wrong;  // coordinate and values of the worst row, or of the first value that is not a number
};

class MlaCase {
 public:
  explicit MlaCase(const MlaCaseOptions& options);

  MlaCaseOutput run() const;        // eager
  MlaCaseOutput run_graph() const;  // plan and decode captured into a graph, replayed twice
  MlaCaseError compare(const MlaCaseOutput& output) const;

  const MlaDecodeLayout& layout() const { return layout_; }
  // Replaces all lengths on the device (each at most what it was), as a serving step does between replays.
  void shorten(const std::vector<std::int32_t>& lengths);

 private:
  MlaDecodeLengths device_lengths() const;
  void enqueue(cudaStream_t stream) const;
  MlaCaseOutput take_output() const;
  void poison_output() const;
  std::int32_t rows_of(std::int32_t seq, std::int32_t token) const;

  MlaCaseOptions options_;
  MlaDecodeLayout layout_;
  std::vector<std::uint16_t> q_;
  std::vector<std::uint8_t> kv_;
  std::vector<std::int32_t> table_;
  std::vector<std::int32_t> query_rows_;  // [seqs, q_tokens], always filled
  std::int32_t blocks_ = 0;
  DeviceBytes device_q_, device_kv_, device_table_, device_rows_, device_query_rows_, device_out_,
      device_lse_, workspace_;
};

}  // namespace tessera::cuda

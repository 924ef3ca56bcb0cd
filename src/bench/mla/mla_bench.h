// Times decode attention on one device and compares each shape with its bound.
//
// What is timed: the attention kernel and the merge, between two events, kernels already queued (the host's
// launch time is hidden, the device's is not). The planner, which runs once a step and not once a layer, is
// timed alone. Every timing reads KV that was not read recently: enough copies of the pages are kept to pass
// four times the L2 cache before one repeats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/mla_decode.h"

namespace tessera::bench {

struct MlaBenchCase {
  std::vector<std::int32_t> lengths;  // [seqs]
  std::int32_t heads = 64;
  std::int32_t q_tokens = 1;
  KvFormat kv = KvFormat::kBF16;
  cuda::MlaKernel kernel = cuda::MlaKernel::kAuto;
  std::int32_t fixed_split_tiles = 0;
  bool tokens_apart = false;  // every query token is a sequence of its own, over the same pages
  std::int32_t parts = 0;
  bool fp8_math = false;
  // Experiments: override what the layout chose. -1: leave it.
  std::int32_t late = -1;
  std::int32_t piece_overhead = -1;
  std::int32_t split_cost = -1;
};

struct MlaCeilings {
  double gigabytes_per_second = 4493.0;  // one H200, reading (measured)
  double teraflops = 785.0;              // one H200, dense bf16, cuBLAS 8192 cubed (measured)
};

struct MlaBenchResult {
  cuda::MlaDecodeLayout layout;
  double median_us = 0.0;
  double low_us = 0.0;   // 10th percentile
  double high_us = 0.0;  // 90th percentile
  double plan_us = 0.0;  // the planner, median
  double bytes = 0.0;    // KV rows in use, queries and outputs, once each
  double flops = 0.0;    // 2 * rows * query rows * (576 + 512)
};

double floor_us(const MlaBenchResult& result, const MlaCeilings& ceilings);

class MlaBench {
 public:
  MlaBench();
  MlaBenchResult time(const MlaBenchCase& problem, int timings) const;
  // The device, its driver, as one line for the head of a table.
  std::string device_line() const;
  // A copy on this device, counting bytes read and written, and reading alone: GB/s.
  double measured_copy_gbps() const;

 private:
  cuda::DeviceBytes pool_;  // KV pages of all cases, random once
  std::size_t pool_bytes_ = 0;
  cuda::DeviceBytes q_;
  std::size_t q_bytes_ = 0;
};

}  // namespace tessera::bench

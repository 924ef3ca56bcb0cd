// One operation of a back-end at a time, with random weights, against the least time that its bytes and its
// arithmetic need. Weights rotate, so that none is found in a cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace tessera::bench {

// What a device can do: ceilings.h measures it. The figures here are an H200's.
struct Ceilings {
  double read_gb_s = 4493;
  double tflop_s = 785;
};

struct OpResult {
  std::string name;
  std::int64_t tokens = 0;
  double us = 0;      // median of the repetitions, a call
  double low_us = 0;  // fastest and slowest repetition
  double high_us = 0;
  double bytes = 0;  // read and written at least, a call
  double flops = 0;
  double floor_us(const Ceilings& c) const {
    const double memory = bytes / c.read_gb_s * 1e-3;
    const double arithmetic = flops / c.tflop_s * 1e-6;
    return memory > arithmetic ? memory : arithmetic;
  }
};

struct LinearCase {
  std::string name;
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t out = 0;
  std::int64_t in = 0;
  std::int64_t heads = 1;  // matrices, each with its own part of x
};
struct MoeCase {
  WeightFormat format = WeightFormat::kInt4Group32;
  std::int64_t experts = 384;
  std::int64_t top_k = 8;
  std::int64_t hidden = 7168;
  std::int64_t width = 2048;
};
struct MlaDecodeCase {
  std::int32_t seqs = 1;
  std::int32_t context = 4096;  // rows that the last query token of a sequence sees; at least `query`
  std::int64_t heads = 64;
  std::int32_t query = 1;  // tokens of each sequence
  KvFormat format = KvFormat::kBF16;
  std::int32_t latent = 512;
  std::int32_t rope = 64;
};
struct PrefillCase {
  std::int64_t heads = 64;
  std::int64_t context = 0;  // rows before the first token
};

class OpBench {
 public:
  explicit OpBench(Backend& backend) : backend_(backend) {}

  std::vector<OpResult> linear(const LinearCase& c, const std::vector<std::int64_t>& tokens);
  std::vector<OpResult> moe(const MoeCase& c, const std::vector<std::int64_t>& tokens);
  // Over rows that were not read recently.
  OpResult mla_decode(const MlaDecodeCase& c);
  static std::int64_t pool_bytes(const MlaDecodeCase& c);  // that it takes for them
  OpResult prefill(const PrefillCase& c, std::int64_t tokens);
  std::vector<OpResult> small_ops(std::int64_t tokens);

 private:
  // Times `call(i)`, i counting up over the rotating inputs.
  OpResult time(std::string name, std::int64_t tokens, std::int64_t calls,
                const std::function<void(std::int64_t)>& call);
  KvLayer random_pool(KvFormat format, const KvRowShape& shape, std::int64_t blocks);
  Tensor random_rows(std::int64_t rows, std::int64_t cols);
  Tensor rows(DType dtype, std::int64_t rows, std::int64_t cols);
  template <class T>
  T* upload(const std::vector<T>& host);

  Backend& backend_;
  std::vector<Buffer> buffers_;
};

}  // namespace tessera::bench

// Weights of the right formats and sizes without meaning, for benchmarks that need no checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "bench/step/forwarding_backend.h"

namespace tessera::bench {

// Bytes that any format reads as small finite numbers.
class RandomBytes {
 public:
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // bf16 and f32 of size 2^-7 to 2^-4, int4 codes.
  std::vector<std::byte> words(std::int64_t bytes) {
    return masked(bytes, 0x81ff81ff81ff81ffULL, 0x3c003c003c003c00ULL);
  }
  // e4m3 codes from 1 to 2; never a NaN.
  std::vector<std::byte> codes(std::int64_t bytes) {
    return masked(bytes, 0x8787878787878787ULL, 0x3838383838383838ULL);
  }

 private:
  std::vector<std::byte> masked(std::int64_t bytes, std::uint64_t kept, std::uint64_t set);
  std::uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

// Stacks of rows in each format, cut from one pool of random bytes: large, so that rows of a matrix differ.
class RandomRows {
 public:
  // Views that live as long as this: `rows` rows of `in` values, in pieces of 128.
  std::vector<HostMatrix> rows(WeightFormat format, std::int64_t rows, std::int64_t in);
  std::vector<float> values(std::int64_t count);

 private:
  struct Pool {
    std::vector<std::byte> data, scale;
  };
  Pool& pool(WeightFormat format, std::int64_t data_bytes, std::int64_t scale_bytes);

  RandomBytes random_;
  std::map<WeightFormat, Pool> pools_;
};

// Fills rows of a cache.
void fill_random(Backend& backend, KvFormat format, void* rows, std::int64_t bytes);

// A back-end whose weights are random whatever it is given: vectors are all ones. Loading a model's outline
// on it takes the time of copying and no file.
class RandomWeights final : public ForwardingBackend {
 public:
  explicit RandomWeights(std::unique_ptr<Backend> inner) : ForwardingBackend(std::move(inner)) {}

  Weight prepare(std::span<const HostMatrix> row_parts) override;
  WeightStack prepare_stack(std::int64_t count,
                            const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) override;
  WeightStack prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                                std::span<const float> values) override;
  VectorWeight prepare_vector(std::span<const float> values) override;

 private:
  std::vector<HostMatrix> random(std::span<const HostMatrix> parts);
  RandomRows rows_;
};

}  // namespace tessera::bench

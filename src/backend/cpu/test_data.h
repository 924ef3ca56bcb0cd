// For tests and benchmarks: random values, checkpoint-like matrices of every weight format, caches whose
// unread parts are poisoned.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "backend/attention_batch.h"
#include "checkpoint/host_matrix.h"
#include "tensor/dtype.h"
#include "tensor/kv_format.h"
#include "tensor/tensor.h"

namespace tessera::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  float normal(float scale = 1) { return std::normal_distribution<float>(0, scale)(engine_); }
  // Both ends included.
  std::int64_t whole(std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(engine_);
  }
  std::uint64_t bits() { return engine_(); }
  std::vector<float> normals(std::int64_t count, float scale = 1) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(scale);
    return values;
  }

 private:
  std::mt19937_64 engine_;
};

inline Tensor rows_of(std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  return Tensor::dense(values.data(), DType::kF32, rows, cols);
}
inline Tensor rows_of(std::vector<std::int32_t>& values, std::int64_t rows, std::int64_t cols) {
  return Tensor::dense(values.data(), DType::kI32, rows, cols);
}

// A random matrix with the bytes that a checkpoint would hold.
struct OwnedMatrix {
  std::vector<std::byte> data;
  std::vector<std::byte> scale;
  HostMatrix view;
};

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

inline OwnedMatrix random_matrix(Random& random, WeightFormat format, std::int64_t out, std::int64_t in) {
  OwnedMatrix m;
  m.view = {.format = format, .out = out, .in = in};
  const float spread = 1.0F / std::sqrt(static_cast<float>(in));
  switch (format) {
    case WeightFormat::kF32:
      for (std::int64_t i = 0; i < out * in; ++i) append(m.data, random.normal(spread));
      m.view.data_stride = in * 4;
      break;
    case WeightFormat::kBF16:
      for (std::int64_t i = 0; i < out * in; ++i) append(m.data, BF16(random.normal(spread)).bits);
      m.view.data_stride = in * 2;
      break;
    case WeightFormat::kFp8Block128: {
      for (std::int64_t i = 0; i < out * in; ++i) append(m.data, F8E4M3(random.normal(60)).bits);
      m.view.data_stride = in;
      const std::int64_t blocks = (in + 127) / 128;
      for (std::int64_t i = 0; i < (out + 127) / 128 * blocks; ++i) {
        append(m.scale, spread / 60 * (1 + 0.5F * std::fabs(random.normal())));
      }
      m.view.scale_stride = blocks * 4;
      break;
    }
    case WeightFormat::kInt4Group32:
      for (std::int64_t i = 0; i < out * in / 8; ++i)
        append(m.data, static_cast<std::uint32_t>(random.bits()));
      m.view.data_stride = in / 2;
      for (std::int64_t i = 0; i < out * in / 32; ++i) {
        append(m.scale, BF16(spread / 4 * (1 + 0.5F * std::fabs(random.normal()))).bits);
      }
      m.view.scale_stride = in / 32 * 2;
      break;
  }
  m.view.data = m.data.data();
  m.view.scale = m.scale.empty() ? nullptr : m.scale.data();
  return m;
}

// The matrix's values as f64, by the checkpoint's own reading of the format.
inline std::vector<double> values_of(const HostMatrix& m) {
  std::vector<double> values;
  std::vector<float> row(static_cast<std::size_t>(m.in));
  for (std::int64_t r = 0; r < m.out; ++r) {
    m.dequantise_row(r, row.data());
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

// A pool of blocks full of NaN, some sequences with blocks in random places, and block tables whose unused
// entries lead far outside.
struct Cache {
  Cache(Random& random, KvFormat format, const KvRowShape& shape, std::int32_t block_size,
        const std::vector<std::int32_t>& lengths)
      : lengths_(lengths) {
    std::int32_t needed = 0;
    for (const std::int32_t length : lengths) {
      const std::int32_t blocks = (length + block_size - 1) / block_size;
      needed += blocks;
      max_blocks = std::max(max_blocks, blocks + 1);
    }
    layer = {.format = format,
             .shape = shape,
             .blocks = needed + 2,
             .block_size = block_size,
             .row_bytes = *kv_row_bytes(format, shape)};
    bytes.assign(static_cast<std::size_t>(layer.blocks * block_size * layer.row_bytes), std::byte{0xff});
    layer.data = bytes.data();
    std::vector<std::int32_t> free(static_cast<std::size_t>(layer.blocks));
    for (std::size_t i = 0; i < free.size(); ++i) free[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = free.size() - 1; i > 0; --i) {
      std::swap(free[i], free[static_cast<std::size_t>(random.whole(0, static_cast<std::int64_t>(i)))]);
    }
    table.assign(lengths.size() * static_cast<std::size_t>(max_blocks), 1'000'000'007);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (std::int32_t b = 0; b * block_size < lengths[s]; ++b) {
        table[s * static_cast<std::size_t>(max_blocks) + static_cast<std::size_t>(b)] = free.back();
        free.pop_back();
      }
    }
  }
  std::int64_t slot(std::size_t seq, std::int32_t row) const {
    const std::int64_t block =
        table[seq * static_cast<std::size_t>(max_blocks) + static_cast<std::size_t>(row / layer.block_size)];
    return block * layer.block_size + row % layer.block_size;
  }

  KvLayer layer;
  std::int32_t max_blocks = 1;
  std::vector<std::int32_t> table;
  std::vector<std::byte> bytes;

 private:
  std::vector<std::int32_t> lengths_;
};

// The last `queries[s]` tokens of each sequence of a cache as one batch.
struct Batch {
  Batch(const Cache& cache, const std::vector<std::int32_t>& lengths,
        const std::vector<std::int32_t>& queries) {
    query_start.push_back(0);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      for (std::int32_t i = 0; i < queries[s]; ++i) {
        const std::int32_t position = lengths[s] - queries[s] + i;
        positions.push_back(position);
        visible.push_back(position + 1);
        slots.push_back(cache.slot(s, position));
      }
      query_start.push_back(query_start.back() + queries[s]);
      view.max_query = std::max(view.max_query, queries[s]);
    }
    view.seqs = static_cast<std::int32_t>(lengths.size());
    view.tokens = query_start.back();
    view.max_blocks = cache.max_blocks;
    view.query_start = query_start.data();
    view.positions = positions.data();
    view.visible_rows = visible.data();
    view.block_table = cache.table.data();
    view.slots = slots.data();
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::vector<std::int32_t> query_start;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> visible;
  std::vector<std::int64_t> slots;
  AttentionBatch view;
};

// Empty where the two agree within `tolerance` x max(1, |expected|); else the first coordinate that does not.
template <class Expected>
std::string first_difference(const std::vector<float>& found, const std::vector<Expected>& expected,
                             std::int64_t cols, double tolerance) {
  if (found.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double want = static_cast<double>(expected[i]);
    const double got = static_cast<double>(found[i]);
    const bool same =
        std::isnan(want)
            ? std::isnan(got)
            : (want == got || std::fabs(want - got) <= tolerance * std::max(1.0, std::fabs(want)));
    if (!same) {
      const auto at = static_cast<std::int64_t>(i);
      return "row " + std::to_string(at / cols) + ", column " + std::to_string(at % cols) + ": found " +
             std::to_string(got) + ", expected " + std::to_string(want);
    }
  }
  return {};
}

// Empty where all bits agree.
inline std::string first_bit_difference(const float* found, const float* expected, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::memcmp(found + i, expected + i, sizeof(float)) != 0) {
      return "element " + std::to_string(i) + ": found " + std::to_string(found[i]) + ", expected " +
             std::to_string(expected[i]);
    }
  }
  return {};
}

}  // namespace tessera::test

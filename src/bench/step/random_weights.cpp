#include "bench/step/random_weights.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tessera::bench {
namespace {

constexpr std::int64_t kPoolBytes = std::int64_t{64} << 20;
constexpr std::int64_t kPieceRows = 128;  // a row of fp8 blocks
constexpr std::int64_t kAlign = 4096;     // of a piece in its pool

std::int64_t scale_row_bytes(WeightFormat format, std::int64_t in) {
  if (format == WeightFormat::kFp8Block128) return (in + 127) / 128 * 4;
  if (format == WeightFormat::kInt4Group32) return in / 32 * 2;
  return 0;
}

}  // namespace

std::vector<std::byte> RandomBytes::masked(std::int64_t bytes, std::uint64_t kept, std::uint64_t set) {
  std::vector<std::byte> result(static_cast<std::size_t>((bytes + 7) / 8 * 8));
  for (std::size_t i = 0; i < result.size(); i += 8) {
    const std::uint64_t word = (next() & kept) | set;
    std::memcpy(result.data() + i, &word, 8);
  }
  return result;
}

RandomRows::Pool& RandomRows::pool(WeightFormat format, std::int64_t data_bytes, std::int64_t scale_bytes) {
  Pool& pool = pools_[format];
  // Views of an earlier, smaller pool have been copied by whoever asked for them.
  if (static_cast<std::int64_t>(pool.data.size()) < data_bytes) {
    const std::int64_t bytes = std::max(kPoolBytes, 2 * data_bytes);
    pool.data = format == WeightFormat::kFp8Block128 ? random_.codes(bytes) : random_.words(bytes);
  }
  if (static_cast<std::int64_t>(pool.scale.size()) < scale_bytes) {
    if (format == WeightFormat::kFp8Block128) {
      const std::vector<float> scales(static_cast<std::size_t>(scale_bytes / 4 + 1), 1e-2F);
      pool.scale.resize(scales.size() * 4);
      std::memcpy(pool.scale.data(), scales.data(), pool.scale.size());
    } else {
      pool.scale = random_.words(scale_bytes);
    }
  }
  return pool;
}

std::vector<HostMatrix> RandomRows::rows(WeightFormat format, std::int64_t rows, std::int64_t in) {
  const std::int64_t row_bytes = stored_bytes(format, in);
  const std::int64_t scale_bytes = scale_row_bytes(format, in);
  const Pool& from = pool(format, kPieceRows * row_bytes, kPieceRows * scale_bytes);
  const auto places = (static_cast<std::int64_t>(from.data.size()) - kPieceRows * row_bytes) / kAlign + 1;
  std::vector<HostMatrix> pieces;
  for (std::int64_t first = 0; first < rows; first += kPieceRows) {
    const auto at = static_cast<std::int64_t>(random_.next() % static_cast<std::uint64_t>(places)) * kAlign;
    pieces.push_back({.format = format,
                      .out = std::min(kPieceRows, rows - first),
                      .in = in,
                      .data = from.data.data() + at,
                      .data_stride = row_bytes,
                      .scale = scale_bytes > 0 ? from.scale.data() : nullptr,
                      .scale_stride = scale_bytes});
  }
  return pieces;
}

std::vector<float> RandomRows::values(std::int64_t count) {
  const std::vector<std::byte> bytes = random_.words(count * 4);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::memcpy(values.data(), bytes.data(), values.size() * 4);
  return values;
}

void fill_random(Backend& backend, KvFormat format, void* rows, std::int64_t bytes) {
  RandomBytes random;
  const bool is_narrow = format == KvFormat::kFp8 || format == KvFormat::kFp8Grouped;
  const std::vector<std::byte> some = is_narrow ? random.codes(kPoolBytes) : random.words(kPoolBytes);
  for (std::int64_t at = 0; at < bytes; at += kPoolBytes) {
    backend.copy_to_device(static_cast<std::byte*>(rows) + at, some.data(),
                           static_cast<std::size_t>(std::min(kPoolBytes, bytes - at)));
  }
  backend.synchronise();
}

std::vector<HostMatrix> RandomWeights::random(std::span<const HostMatrix> parts) {
  std::vector<HostMatrix> all;
  for (const HostMatrix& part : parts) {
    for (const HostMatrix& piece : rows_.rows(part.format, part.out, part.in)) all.push_back(piece);
  }
  return all;
}

Weight RandomWeights::prepare(std::span<const HostMatrix> row_parts) {
  return inner_->prepare(random(row_parts));
}

WeightStack RandomWeights::prepare_stack(std::int64_t count,
                                         const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) {
  return inner_->prepare_stack(count, [&](std::int64_t i) { return random(parts(i)); });
}

WeightStack RandomWeights::prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out,
                                             std::int64_t in, std::span<const float> values) {
  return inner_->prepare_stack_f32(format, count, out, in,
                                   rows_.values(static_cast<std::int64_t>(values.size())));
}

VectorWeight RandomWeights::prepare_vector(std::span<const float> values) {
  return inner_->prepare_vector(std::vector<float>(values.size(), 1.0F));
}

}  // namespace tessera::bench

#include "backend/cuda/weight_store.h"

#include <algorithm>

#include "backend/cuda/weight_repack.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

// Of a part that is on its way at a time.
constexpr std::int64_t kStagingBytes = std::int64_t{128} << 20;

// The matrix of scales that belongs to a part: its rows, and bytes a row.
struct ScaleShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_bytes = 0;
};
ScaleShape scale_shape(const HostMatrix& part) {
  switch (part.format) {
    case WeightFormat::kFp8Block128: {
      const std::int64_t cols = (part.in + 127) / 128;
      return {(part.scale_row_offset + part.out + 127) / 128, cols, cols * 4};
    }
    case WeightFormat::kInt4Group32:
      return {part.out, part.in / 32, part.in / 32 * 2};
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      break;
  }
  return {};
}

std::size_t aligned(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 255) / 256 * 256); }

void copy_rows(void* to, const void* from, std::int64_t from_stride, std::int64_t bytes, std::int64_t rows,
               cudaStream_t stream) {
  TS_CUDA(cudaMemcpy2DAsync(to, static_cast<std::size_t>(bytes), from, static_cast<std::size_t>(from_stride),
                            static_cast<std::size_t>(bytes), static_cast<std::size_t>(rows),
                            cudaMemcpyHostToDevice, stream));
}

TiledWeight view(const void* data, const void* scale, WeightFormat format, std::int64_t count,
                 std::int64_t out, std::int64_t in) {
  const WeightBytes bytes = weight_bytes(format, out, in);
  const bool int4 = format == WeightFormat::kInt4Group32;
  return {.data = data,
          .scale = scale,
          .largest_scale = int4 ? reinterpret_cast<const std::uint32_t*>(
                                      static_cast<const std::byte*>(scale) + count * bytes.scale)
                                : nullptr,
          .format = format,
          .out = static_cast<std::int32_t>(out),
          .in = static_cast<std::int32_t>(in),
          .padded_in = static_cast<std::int32_t>(padded(in, kColPadding)),
          .count = static_cast<std::int32_t>(count),
          .data_stride = bytes.data,
          .scale_stride = bytes.scale};
}

}  // namespace

TiledWeight tiled(const Weight& weight) {
  return view(weight.data, weight.scale, weight.format, 1, weight.out, weight.in);
}
TiledWeight tiled(const WeightStack& stack) {
  return view(stack.data, stack.scale, stack.format, stack.count, stack.out, stack.in);
}

Buffer allocate_zeroed(std::size_t bytes) {
  void* data = nullptr;
  TS_CUDA(cudaMalloc(&data, std::max<std::size_t>(bytes, 256)));
  Buffer buffer(data, [](void* p) { (void)cudaFree(p); });
  TS_CUDA(cudaMemset(data, 0, std::max<std::size_t>(bytes, 256)));
  TS_CUDA(cudaDeviceSynchronize());
  return buffer;
}

std::byte* WeightStore::staging(std::size_t bytes) {
  if (bytes > staging_bytes_) {
    staging_.reset();
    staging_ = allocate_device(bytes);
    staging_bytes_ = bytes;
  }
  return staging_.get();
}

WeightStack WeightStore::empty(WeightFormat format, std::int64_t count, std::int64_t out,
                               std::int64_t in) const {
  const WeightBytes bytes = weight_bytes(format, out, in);
  WeightStack stack;
  stack.format = format;
  stack.count = count;
  stack.out = out;
  stack.in = in;
  stack.bytes = count * (bytes.data + bytes.scale);
  stack.storage = allocate_zeroed(static_cast<std::size_t>(
      stack.bytes + (format == WeightFormat::kInt4Group32 ? kLargestScaleBytes : 0)));
  stack.data = stack.storage.get();
  if (bytes.scale > 0) stack.scale = static_cast<const std::byte*>(stack.data) + count * bytes.data;
  return stack;
}

void WeightStore::fill_rows(const WeightStack& stack, std::int64_t index, std::int64_t first_row,
                            const HostMatrix& part) {
  const std::int64_t bytes_a_row = stored_bytes(part.format, part.in);
  const ScaleShape scales = scale_shape(part);
  const std::size_t data_bytes = aligned(bytes_a_row * part.out);
  std::byte* data = staging(data_bytes + aligned(scales.rows * scales.row_bytes));
  std::byte* scale = data + data_bytes;
  copy_rows(data, part.data, part.data_stride, bytes_a_row, part.out, stream_);
  if (scales.rows > 0)
    copy_rows(scale, part.scale, part.scale_stride, scales.row_bytes, scales.rows, stream_);
  const TiledWeight to = tiled(stack);
  auto* base = static_cast<std::byte*>(stack.storage.get());
  launch_repack({.data = data,
                 .scale = scale,
                 .format = part.format,
                 .rows = part.out,
                 .cols = part.in,
                 .scale_cols = scales.cols,
                 .scale_row_offset = part.scale_row_offset,
                 .first_row = first_row,
                 .padded_cols = to.padded_in,
                 .to_bf16 = stack.format == WeightFormat::kBF16,
                 .to_data = base + index * to.data_stride,
                 .to_scale = base + stack.count * to.data_stride + index * to.scale_stride,
                 .largest_scale = const_cast<std::uint32_t*>(to.largest_scale)},
                stream_);
  TS_CUDA(cudaStreamSynchronize(stream_));  // the staging memory and the caller's view are free again
}

void WeightStore::fill(const WeightStack& stack, std::int64_t index, std::span<const HostMatrix> parts) {
  std::int64_t row = 0;
  for (const HostMatrix& part : parts) {
    const std::int64_t step = std::max<std::int64_t>(1, kStagingBytes / stored_bytes(part.format, part.in));
    for (std::int64_t first = 0; first < part.out; first += step) {
      fill_rows(stack, index, row + first, part.row_range(first, std::min(step, part.out - first)));
    }
    row += part.out;
  }
}

WeightStack WeightStore::stack(std::int64_t count,
                               const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) {
  TS_CHECK(count > 0, count);
  WeightStack result;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<HostMatrix> here = parts(i);
    TS_CHECK(!here.empty());
    std::int64_t out = 0;
    for (const HostMatrix& part : here) {
      TS_CHECK(part.format == here[0].format && part.in == here[0].in, name_of(part.format),
               name_of(here[0].format), part.in, here[0].in);
      out += part.out;
    }
    if (i == 0) result = empty(stored_format(here[0].format), count, out, here[0].in);
    TS_CHECK(stored_format(here[0].format) == result.format && out == result.out && here[0].in == result.in,
             i, out, result.out, here[0].in, result.in);
    fill(result, i, here);
  }
  return result;
}

WeightStack WeightStore::stack_of_values(WeightFormat format, std::int64_t count, std::int64_t out,
                                         std::int64_t in, std::span<const float> values) {
  TS_CHECK(format == WeightFormat::kF32 || format == WeightFormat::kBF16, name_of(format));
  TS_CHECK(static_cast<std::int64_t>(values.size()) == count * out * in, values.size(), count, out, in);
  WeightStack result = empty(stored_format(format), count, out, in);
  for (std::int64_t i = 0; i < count; ++i) {
    const HostMatrix part{.format = WeightFormat::kF32,
                          .out = out,
                          .in = in,
                          .data = values.data() + i * out * in,
                          .data_stride = in * 4};
    fill(result, i, {&part, 1});
  }
  return result;
}

Weight WeightStore::matrix(std::span<const HostMatrix> row_parts) {
  WeightStack one =
      stack(1, [&](std::int64_t) { return std::vector<HostMatrix>(row_parts.begin(), row_parts.end()); });
  return {.format = one.format,
          .out = one.out,
          .in = one.in,
          .storage = std::move(one.storage),
          .data = one.data,
          .scale = one.scale,
          .bytes = one.bytes};
}

}  // namespace tessera::cuda

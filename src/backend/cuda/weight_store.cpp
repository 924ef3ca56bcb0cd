#include "backend/cuda/weight_store.h"

#include <algorithm>

#include "backend/cuda_layout/staging_layout.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

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

Buffer allocate(std::size_t bytes) {
  void* data = nullptr;
  TS_CUDA(cudaMalloc(&data, std::max<std::size_t>(bytes, 256)));
  return {data, [](void* p) { (void)cudaFree(p); }};
}

}  // namespace

TiledWeight tiled(const Weight& weight) {
  return view(weight.data, weight.scale, weight.format, 1, weight.out, weight.in);
}
TiledWeight tiled(const WeightStack& stack) {
  return view(stack.data, stack.scale, stack.format, stack.count, stack.out, stack.in);
}

Buffer allocate_zeroed(std::size_t bytes) {
  Buffer buffer = allocate(bytes);
  TS_CUDA(cudaMemset(buffer.get(), 0, std::max<std::size_t>(bytes, 256)));
  TS_CUDA(cudaDeviceSynchronize());
  return buffer;
}

// What `work` makes, once its views have been read.
template <class Work>
auto WeightStore::loaded(const Work& work) {
  try {
    auto made = work();
    upload_.finish();
    return made;
  } catch (...) {
    upload_.stop_reading();
    throw;
  }
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
  const auto all =
      static_cast<std::size_t>(stack.bytes + (format == WeightFormat::kInt4Group32 ? kLargestScaleBytes : 0));
  stack.storage = allocate(all);
  // Padding and the largest scale start at zero. Ordered before whatever fills the rest.
  TS_CUDA(cudaMemsetAsync(stack.storage.get(), 0, all, stream_));
  stack.data = stack.storage.get();
  if (bytes.scale > 0) stack.scale = static_cast<const std::byte*>(stack.data) + count * bytes.data;
  return stack;
}

void WeightStore::fill_rows(const WeightStack& stack, std::int64_t index, std::int64_t first_row,
                            const HostMatrix& part) {
  const StagedRows rows = staged(part);
  const WeightUpload::Place place = upload_.take(rows.bytes);
  upload_.read({.to = place.host,
                .from = part.data,
                .from_stride = part.data_stride,
                .bytes = rows.row_bytes,
                .rows = part.out});
  upload_.read({.to = place.host + rows.scale_at,
                .from = part.scale,
                .from_stride = part.scale_stride,
                .bytes = rows.scale_row_bytes,
                .rows = rows.scale_rows});
  const TiledWeight to = tiled(stack);
  auto* base = static_cast<std::byte*>(stack.storage.get());
  upload_.then({.data = place.device,
                .scale = place.device + rows.scale_at,
                .format = part.format,
                .rows = part.out,
                .cols = part.in,
                .scale_cols = rows.scale_cols,
                .scale_row_offset = part.scale_row_offset,
                .first_row = first_row,
                .padded_cols = to.padded_in,
                .to_bf16 = stack.format == WeightFormat::kBF16,
                .to_data = base + index * to.data_stride,
                .to_scale = base + stack.count * to.data_stride + index * to.scale_stride,
                .largest_scale = const_cast<std::uint32_t*>(to.largest_scale)});
}

void WeightStore::fill(const WeightStack& stack, std::int64_t index, std::span<const HostMatrix> parts) {
  std::int64_t row = 0;
  for (const HostMatrix& part : parts) {
    for (std::int64_t first = 0; first < part.out;) {
      const HostMatrix rest = part.row_range(first, part.out - first);
      const std::int64_t rows = rows_that_fit(rest, upload_.room());
      if (rows == 0) {
        TS_CHECK(upload_.room() < WeightUpload::kBlockBytes, rest.in, WeightUpload::kBlockBytes);
        upload_.next_block();
        continue;
      }
      fill_rows(stack, index, row + first, rest.row_range(0, rows));
      first += rows;
    }
    row += part.out;
  }
}

WeightStack WeightStore::stack(std::int64_t count,
                               const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) {
  TS_CHECK(count > 0, count);
  return loaded([&] {
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
  });
}

WeightStack WeightStore::stack_of_values(WeightFormat format, std::int64_t count, std::int64_t out,
                                         std::int64_t in, std::span<const float> values) {
  TS_CHECK(format == WeightFormat::kF32 || format == WeightFormat::kBF16, name_of(format));
  TS_CHECK(static_cast<std::int64_t>(values.size()) == count * out * in, values.size(), count, out, in);
  return loaded([&] {
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
  });
}

Buffer WeightStore::vector(std::span<const float> values) {
  return loaded([&] {
    Buffer result = allocate(values.size_bytes());
    auto* to = static_cast<float*>(result.get());
    while (!values.empty()) {
      if (upload_.room() == 0) upload_.next_block();
      const std::span<const float> now =
          values.first(std::min(values.size(), static_cast<std::size_t>(upload_.room()) / sizeof(float)));
      const HostMatrix row{.format = WeightFormat::kF32,
                           .out = 1,
                           .in = static_cast<std::int64_t>(now.size()),
                           .data = now.data(),
                           .data_stride = static_cast<std::int64_t>(now.size_bytes())};
      const WeightUpload::Place place = upload_.take(staged(row).bytes);
      upload_.read({.to = place.host, .from = row.data, .bytes = row.data_stride, .rows = 1});
      upload_.then({.data = place.device, .format = row.format, .rows = 1, .cols = row.in, .to_data = to});
      to += now.size();
      values = values.subspan(now.size());
    }
    return result;
  });
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

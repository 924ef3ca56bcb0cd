#include "backend/cpu/prepare.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "backend/cpu/packed_matrix.h"
#include "base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kSmallAlign = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;  // fewer TLB misses when weights are streamed

struct StackShape {
  WeightFormat format = WeightFormat::kF32;
  std::int64_t out = 0;
  std::int64_t in = 0;

  std::int64_t panels() const { return (out + kPanel - 1) / kPanel; }
  std::int64_t data_bytes() const { return panels() * panel_data_bytes(format, in); }
  std::int64_t scale_bytes() const { return panels() * panel_scale_bytes(format, in); }
};

StackShape shape_of(std::span<const HostMatrix> parts) {
  TS_CHECK(!parts.empty());
  StackShape shape{.format = parts[0].format, .in = parts[0].in};
  for (const HostMatrix& part : parts) {
    TS_CHECK(part.format == shape.format && part.in == shape.in, name_of(part.format), name_of(shape.format),
             part.in, shape.in);
    TS_CHECK(shape.format != WeightFormat::kInt4Group32 || part.in % kInt4Group == 0, part.in);
    shape.out += part.out;
  }
  return shape;
}

WeightStack empty_stack(const StackShape& shape, std::int64_t count) {
  WeightStack stack;
  stack.format = shape.format;
  stack.count = count;
  stack.out = shape.out;
  stack.in = shape.in;
  stack.bytes = cpu_stack_bytes(shape.format, count, shape.out, shape.in);
  stack.storage = allocate_zeroed(static_cast<std::size_t>(stack.bytes));
  stack.data = stack.storage.get();
  if (shape.scale_bytes() > 0)
    stack.scale = static_cast<const char*>(stack.data) + count * shape.data_bytes();
  return stack;
}

// Fills matrix `index` of a stack, its panels shared between the threads.
template <class PackPanel>
void fill(ThreadPool& pool, const WeightStack& stack, std::int64_t index, const PackPanel& pack) {
  const StackShape shape{.format = stack.format, .out = stack.out, .in = stack.in};
  auto* data = static_cast<std::byte*>(stack.storage.get()) + index * shape.data_bytes();
  auto* scale = static_cast<std::byte*>(stack.storage.get()) + stack.count * shape.data_bytes() +
                index * shape.scale_bytes();
  pool.split(shape.panels(), [&](ItemRange range, int) {
    for (std::int64_t p = range.first; p < range.last; ++p) {
      pack(p, data + p * panel_data_bytes(stack.format, stack.in),
           scale + p * panel_scale_bytes(stack.format, stack.in));
    }
  });
}

void fill_from(ThreadPool& pool, const WeightStack& stack, std::int64_t index,
               std::span<const HostMatrix> parts) {
  fill(pool, stack, index,
       [&](std::int64_t panel, std::byte* data, std::byte* scale) { pack_panel(parts, panel, data, scale); });
}

// Large buffers are mapped: their pages are zero by nature and cost memory only once they are touched, so a
// cache for a thousand sequences is free until they come.
Buffer allocate_mapped(std::size_t bytes) {
  const std::size_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const std::size_t mapped = size + kHugePage;  // room to align
  void* start =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  const auto address = (reinterpret_cast<std::uintptr_t>(start) + kHugePage - 1) / kHugePage * kHugePage;
  void* data = reinterpret_cast<void*>(address);
  (void)madvise(data, size, MADV_HUGEPAGE);  // a hint: refusing it changes no result
  return {data, [start, mapped](void*) { munmap(start, mapped); }};
}

}  // namespace

std::int64_t cpu_stack_bytes(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in) {
  const StackShape shape{.format = format, .out = out, .in = in};
  return count * (shape.data_bytes() + shape.scale_bytes());
}

Buffer allocate_zeroed(std::size_t bytes) {
  if (bytes >= 2 * kHugePage) return allocate_mapped(bytes);
  const std::size_t size = std::max(kSmallAlign, (bytes + kSmallAlign - 1) / kSmallAlign * kSmallAlign);
  void* data = std::aligned_alloc(kSmallAlign, size);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, size);
  return {data, [](void* p) { std::free(p); }};
}

Weight prepare_weight(ThreadPool& pool, std::span<const HostMatrix> row_parts) {
  WeightStack stack = empty_stack(shape_of(row_parts), 1);
  fill_from(pool, stack, 0, row_parts);
  return {.format = stack.format,
          .out = stack.out,
          .in = stack.in,
          .storage = std::move(stack.storage),
          .data = stack.data,
          .scale = stack.scale,
          .bytes = stack.bytes};
}

WeightStack prepare_weight_stack(ThreadPool& pool, std::int64_t count,
                                 const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) {
  TS_CHECK(count > 0, count);
  WeightStack stack;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<HostMatrix> here = parts(i);
    const StackShape shape = shape_of(here);
    if (i == 0) stack = empty_stack(shape, count);
    TS_CHECK(shape.format == stack.format && shape.out == stack.out && shape.in == stack.in, i, shape.out,
             stack.out, shape.in, stack.in);
    fill_from(pool, stack, i, here);
  }
  return stack;
}

WeightStack prepare_stack_of_values(ThreadPool& pool, WeightFormat format, std::int64_t count,
                                    std::int64_t out, std::int64_t in, std::span<const float> values) {
  TS_CHECK(format == WeightFormat::kF32 || format == WeightFormat::kBF16, name_of(format));
  TS_CHECK(static_cast<std::int64_t>(values.size()) == count * out * in, values.size(), count, out, in);
  WeightStack stack = empty_stack({.format = format, .out = out, .in = in}, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::span<const float> matrix =
        values.subspan(static_cast<std::size_t>(i * out * in), static_cast<std::size_t>(out * in));
    fill(pool, stack, i, [&](std::int64_t panel, std::byte* data, std::byte*) {
      pack_panel_f32(format, matrix, out, in, panel, data);
    });
  }
  return stack;
}

VectorWeight prepare_values(std::span<const float> values) {
  VectorWeight vector;
  vector.size = static_cast<std::int64_t>(values.size());
  vector.storage = allocate_zeroed(values.size_bytes());
  if (!values.empty()) std::memcpy(vector.storage.get(), values.data(), values.size_bytes());
  vector.data = static_cast<const float*>(vector.storage.get());
  return vector;
}

RopeTable prepare_rope_table(ThreadPool& pool, std::int64_t positions, std::span<const float> frequencies,
                             float multiplier) {
  const auto pairs = static_cast<std::int64_t>(frequencies.size());
  RopeTable table;
  table.positions = positions;
  table.pairs = pairs;
  table.storage = allocate_zeroed(static_cast<std::size_t>(2 * positions * pairs) * sizeof(float));
  auto* cos = static_cast<float*>(table.storage.get());
  float* sin = cos + positions * pairs;
  pool.split(positions, [&](ItemRange range, int) {
    for (std::int64_t p = range.first; p < range.last; ++p) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const float angle = static_cast<float>(p) * frequencies[static_cast<std::size_t>(i)];
        cos[p * pairs + i] = static_cast<float>(std::cos(static_cast<double>(angle))) * multiplier;
        sin[p * pairs + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * multiplier;
      }
    }
  });
  table.cos = cos;
  table.sin = sin;
  return table;
}

}  // namespace tessera

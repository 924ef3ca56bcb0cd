#include <algorithm>

#include "backend/cuda/activation.cuh"
#include "backend/cuda/device.h"
#include "backend/cuda/experts.h"
#include "backend/cuda/order_rows.h"
#include "backend/cuda/product_few.cuh"
#include "backend/cuda/row_ops.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr int kSortThreads = 1024;
static_assert(kMostExperts <= kSortThreads, "one thread an expert");

__device__ int block_scan(int value, int* warp_sums, int& total) {  // exclusive, over 1024 threads
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  int before = 0;
  total = 0;
  for (int w = 0; w < kSortThreads / 32; ++w) {
    if (w < warp) before += warp_sums[w];
    total += warp_sums[w];
  }
  return before + sum - value;
}

// Sorts (token, choice) pairs by expert and cuts each expert's list into items of at most item_rows. One
// block. The order inside an expert is left to chance: no result depends on a row's place.
__global__ void __launch_bounds__(kSortThreads)
    sort_kernel(Rows<const std::int32_t> ids, int tokens, int top_k, int first_expert, int experts,
                int item_rows, ExpertScratch s) {
  __shared__ int count[kMostExperts];
  __shared__ int cursor[kMostExperts];
  __shared__ int warp_sums[kSortThreads / 32];
  const int thread = static_cast<int>(threadIdx.x);
  const int pairs = tokens * top_k;
  wait_for_previous();
  if (thread < experts) count[thread] = 0;
  __syncthreads();
  const auto expert_of = [&](int pair) { return ids.row(pair / top_k)[pair % top_k] - first_expert; };
  for (int pair = thread; pair < pairs; pair += kSortThreads) {
    const int e = expert_of(pair);
    if (e >= 0 && e < experts) atomicAdd(&count[e], 1);
  }
  __syncthreads();
  const int here = thread < experts ? count[thread] : 0;
  int total = 0;
  const int start = block_scan(here, warp_sums, total);
  if (thread < experts) cursor[thread] = start;
  int items = 0;
  int item = block_scan((here + item_rows - 1) / item_rows, warp_sums, items);
  for (int first = 0; first < here; first += item_rows) {
    s.items[item++] = {thread, start + first, min(item_rows, here - first)};
  }
  if (thread == 0) {
    *s.item_count = items;
    *s.pair_count = total;
  }
  __syncthreads();
  for (int pair = thread; pair < pairs; pair += kSortThreads) {
    const int e = expert_of(pair);
    int place = -1;
    if (e >= 0 && e < experts) {
      place = atomicAdd(&cursor[e], 1);
      s.pair_row[place] = pair / top_k;
    }
    s.pair_place[pair] = place;
  }
}

constexpr int kCombineThreads = 128;
constexpr std::int64_t kWideFrom = 64;  // tokens from which a thread adds up several columns

// A thread adds up kPer neighbouring columns. place null: one token, whose choice k lies at k where it is on
// this rank.
template <class T, int kPer>
__global__ void combine_kernel(const T* parts, const std::int32_t* place, Rows<const std::int32_t> ids,
                               int first_expert, int experts, Rows<const float> weights, int top_k,
                               Rows<T> out, std::int64_t cols) {
  struct alignas(kPer * sizeof(T)) Some {
    T values[kPer];
  };
  const std::int64_t token = blockIdx.y;
  const std::int64_t col = (std::int64_t{blockIdx.x} * kCombineThreads + threadIdx.x) * kPer;
  wait_for_previous();
  if (col >= cols) return;
  float sum[kPer] = {};
#pragma unroll 8
  for (int k = 0; k < top_k; ++k) {
    const int e = ids.row(token)[k] - first_expert;
    const std::int64_t at = place ? place[token * top_k + k] : k;
    if (e < 0 || e >= experts) continue;
    const float weight = weights.row(token)[k];
    const Some part = *reinterpret_cast<const Some*>(parts + at * cols + col);
#pragma unroll
    for (int i = 0; i < kPer; ++i) sum[i] += weight * widen(part.values[i]);
  }
  Some result;
#pragma unroll
  for (int i = 0; i < kPer; ++i) result.values[i] = narrow<T>(sum[i]);
  *reinterpret_cast<Some*>(out.row(token) + col) = result;
}

std::int64_t item_limit(std::int64_t pairs, std::int64_t experts, std::int64_t item_rows) {
  // Every expert may end in an item that is not full.
  return std::min(pairs, pairs / item_rows + std::min(experts, pairs));
}

// Tokens an expert gets on average from which tensor cores, not memory, are the bound; on Hopper, where that
// form streams weights as well. Measured: reference/cuda-h200.md.
constexpr std::int64_t kManyFrom = 16;
constexpr std::int64_t kWgmmaFrom = 5;
// Up to which items of 8 rows are the faster ones, though some experts then are read twice.
constexpr std::int64_t kShortItemsTo = 5;

// Both products on Hopper. x is gathered in the order of the pairs, into the memory where down's results will
// be.
void run_wgmma(Product gate_up, Product down, const ExpertScratch& s, const ManyDevice& device,
               cudaStream_t stream) {
  const WeightFormat format = gate_up.weight.format;
  float* scale = takes_scaled_rows(format) ? s.pair_scale : nullptr;
  RowOrder order{.x = gate_up.x,
                 .x_stride = gate_up.x_stride,
                 .rows = gate_up.rows,
                 .cols = gate_up.weight.in,
                 .x_rows = s.pair_row,
                 .count = s.pair_count,
                 .y = s.parts,
                 .y_stride = padded(gate_up.weight.in, 32),
                 .wgmma_order = takes_wgmma_order(format),
                 .y_scale = scale};
  launch_order_rows(order, stream);
  gate_up.x = order.y;
  gate_up.x_stride = order.y_stride;
  gate_up.x_rows = nullptr;
  gate_up.x_scale = scale;
  launch_product_many_sm90(gate_up, device, stream);
  if (order.wgmma_order) {
    order.x = s.hidden;
    order.x_stride = down.x_stride;
    order.cols = down.weight.in;
    order.x_rows = nullptr;
    order.y = s.gate_up;
    order.y_stride = padded(down.weight.in, 32);
    launch_order_rows(order, stream);
    down.x = order.y;
    down.x_stride = order.y_stride;
    down.x_scale = scale;
  }
  launch_product_many_sm90(down, device, stream);
}

void run_slice(const ExpertCall& call, void* memory, std::size_t bytes, const ExpertOptions& options,
               cudaStream_t stream) {
  const DType dtype = call.x.dtype;
  const std::int64_t tokens = call.x.rows;
  const std::int64_t top_k = call.ids.cols;
  const std::int64_t pairs = tokens * top_k;
  const std::int64_t width = call.down.in;
  const std::int64_t experts = call.gate_up.count;
  const ExpertScratch s(memory, bytes,
                        {.tokens = tokens, .top_k = top_k, .width = width, .hidden = call.down.out}, dtype);
  Product gate_up{.weight = call.gate_up,
                  .x = call.x.data,
                  .x_stride = call.x.stride,
                  .y = s.hidden,
                  .y_stride = width,
                  .x_dtype = dtype,
                  .y_dtype = dtype,
                  .rows = static_cast<std::int32_t>(pairs),
                  .gated = true,
                  .items = s.items,
                  .item_count = s.item_count,
                  .x_rows = s.pair_row};
  Product down{.weight = call.down,
               .x = s.hidden,
               .x_stride = width,
               .y = s.parts,
               .y_stride = call.down.out,
               .x_dtype = dtype,
               .y_dtype = dtype,
               .rows = static_cast<std::int32_t>(pairs),
               .items = s.items,
               .item_count = s.item_count};
  const bool tile = can_tile(gate_up) && can_tile(down);
  // The rows in another order must fit where they are put.
  const bool wgmma = tile && options.hopper != nullptr && !options.batch_invariant &&
                     pairs >= kWgmmaFrom * experts && padded(call.x.cols, 32) <= call.down.out;
  const bool many = tile && !wgmma && !options.batch_invariant && pairs >= kManyFrom * experts;
  const bool one = tile && !wgmma && tokens == 1;  // its choices need no sorting
  const int few_rows = pairs <= kShortItemsTo * experts ? 8 : 16;
  const int item_rows = wgmma  ? many_rows_sm90(call.gate_up.format)
                        : many ? kManyRows
                        : tile ? few_rows
                               : kManyRows;
  if (one) {
    for (Product* product : {&gate_up, &down}) {
      product->items = nullptr;
      product->item_count = nullptr;
      product->x_rows = nullptr;
      product->ids = static_cast<const std::int32_t*>(call.ids.data);
      product->first_expert = static_cast<std::int32_t>(call.first_expert);
      product->item_limit = static_cast<std::int32_t>(top_k);
    }
    gate_up.same_x = true;
  } else {
    gate_up.item_limit = down.item_limit = static_cast<std::int32_t>(item_limit(pairs, experts, item_rows));
    launch_early(sort_kernel, {1, kSortThreads}, stream, rows_of<const std::int32_t>(call.ids),
                 static_cast<int>(tokens), static_cast<int>(top_k), static_cast<int>(call.first_expert),
                 static_cast<int>(experts), item_rows, s);
  }
  if (wgmma) {
    run_wgmma(gate_up, down, s, *options.hopper, stream);
  } else if (many) {
    launch_product_many(gate_up, stream);
    launch_product_many(down, stream);
  } else if (tile) {
    gate_up.waits_first = true;
    launch_product_few(gate_up, few_rows, stream);
    launch_product_few(down, few_rows, stream);
  } else {
    gate_up.gated = false;
    gate_up.y = s.gate_up;
    gate_up.y_stride = 2 * width;
    launch_product_any(gate_up, stream);
    launch_silu_mul(Tensor::dense(s.gate_up, dtype, pairs, 2 * width),
                    Tensor::dense(s.hidden, dtype, pairs, width), stream);
    launch_product_any(down, stream);
  }
  with_activation(dtype, [&]<class T>(T) {
    constexpr int kWide = 16 / sizeof(T);
    const auto run = [&](auto kernel, int per) {
      const dim3 grid(grid_of(call.out.cols, kCombineThreads * per), static_cast<unsigned>(tokens));
      const auto* parts = static_cast<const T*>(s.parts);
      const std::int32_t* place = one ? nullptr : s.pair_place;
      const auto ids = rows_of<const std::int32_t>(call.ids);
      const auto shares = rows_of<const float>(call.weights);
      const auto out = rows_of<T>(call.out);
      const auto first = static_cast<int>(call.first_expert);
      launch_early(kernel, {grid, kCombineThreads}, stream, parts, place, ids, first,
                   static_cast<int>(experts), shares, static_cast<int>(top_k), out, call.out.cols);
    };
    // Few tokens: more threads instead of wider ones.
    const bool wide = tokens >= kWideFrom && call.out.cols % kWide == 0 && call.out.stride % kWide == 0 &&
                      reinterpret_cast<std::uintptr_t>(call.out.data) % 16 == 0;
    if (wide) {
      run(combine_kernel<T, kWide>, kWide);
    } else {
      run(combine_kernel<T, 1>, 1);
    }
  });
}

}  // namespace

ExpertScratch::ExpertScratch(void* memory, std::size_t bytes, const ExpertLimits& limits, DType dtype) {
  const ExpertLayout layout = expert_layout(limits, dtype);
  TS_CHECK(layout.bytes <= bytes, layout.bytes, bytes, limits.tokens, limits.top_k, limits.width,
           limits.hidden);
  auto* base = static_cast<std::byte*>(memory);
  pair_row = reinterpret_cast<std::int32_t*>(base + layout.pair_row);
  pair_place = reinterpret_cast<std::int32_t*>(base + layout.pair_place);
  items = reinterpret_cast<ProductItem*>(base + layout.items);
  item_count = reinterpret_cast<std::int32_t*>(base + layout.item_count);
  pair_count = reinterpret_cast<std::int32_t*>(base + layout.pair_count);
  pair_scale = reinterpret_cast<float*>(base + layout.pair_scale);
  gate_up = base + layout.gate_up;
  hidden = base + layout.hidden;
  parts = base + layout.parts;
}

void run_experts(const ExpertCall& call, void* scratch, std::size_t scratch_bytes,
                 const ExpertOptions& options, cudaStream_t stream) {
  for (std::int64_t first = 0; first < call.x.rows; first += kExpertSlice) {
    const std::int64_t count = std::min(kExpertSlice, call.x.rows - first);
    ExpertCall slice = call;
    slice.x = call.x.row_range(first, count);
    slice.ids = call.ids.row_range(first, count);
    slice.weights = call.weights.row_range(first, count);
    slice.out = call.out.row_range(first, count);
    run_slice(slice, scratch, scratch_bytes, options, stream);
  }
}

}  // namespace tessera::cuda

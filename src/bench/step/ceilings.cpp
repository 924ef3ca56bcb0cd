#include "bench/step/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "backend/cpu/read_sweep.h"

namespace tessera::bench {
namespace {

constexpr std::int64_t kBytes = std::int64_t{512} << 20;
constexpr int kLaps = 6;

template <class Lap>
double best_seconds(const Lap& lap) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kLaps; ++i) {
    const auto began = std::chrono::steady_clock::now();
    lap();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return best;
}

double cpu_read_gb_s(Backend& backend, int threads) {
  ThreadPool pool(threads);
  const Buffer memory = backend.allocate(static_cast<std::size_t>(kBytes));
  std::memset(memory.get(), 1,
              static_cast<std::size_t>(kBytes));  // untouched pages are all one page of zeros
  volatile std::uint64_t sink = 0;
  return static_cast<double>(kBytes) / 1e9 / best_seconds([&] {
           sink = sum_words(pool, static_cast<const std::uint64_t*>(memory.get()), kBytes / 8);
         });
}

double copy_gb_s(Backend& backend) {
  constexpr std::int64_t kCols = 8192;
  const std::int64_t rows = kBytes / kCols / bytes_of(backend.activation_dtype());
  const Buffer from = backend.allocate(static_cast<std::size_t>(kBytes));
  const Buffer to = backend.allocate(static_cast<std::size_t>(kBytes));
  const auto view = [&](const Buffer& buffer) {
    return Tensor::dense(buffer.get(), backend.activation_dtype(), rows, kCols);
  };
  return 2 * static_cast<double>(kBytes) / 1e9 / best_seconds([&] {
           backend.copy(view(from), view(to));
           backend.synchronise();
         });
}

// A matrix read once, for one row of x.
double stream_gb_s(OpBench& bench) {
  const OpResult stream = bench.linear({.name = "stream", .out = 65536, .in = 8192}, {1}).front();
  return stream.bytes / stream.low_us * 1e-3;
}

}  // namespace

Ceilings measure_ceilings(Backend& backend, int cpu_threads) {
  const bool is_cpu = cpu_threads > 0;
  const std::int64_t side = is_cpu ? 2048 : 8192;
  OpBench bench(backend);
  const OpResult product =
      bench.linear({.name = "product", .out = side, .in = side}, {is_cpu ? 256 : 8192}).front();
  return {.read_gb_s =
              is_cpu ? cpu_read_gb_s(backend, cpu_threads) : std::max(copy_gb_s(backend), stream_gb_s(bench)),
          .tflop_s = product.flops / product.low_us * 1e-6};
}

}  // namespace tessera::bench

#include "bench/mla/mla_bench.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/check.h"
#include "bench/mla/event_times.h"
#include "bench/mla/random_fill.h"

namespace tessera::bench {
namespace {

using cuda::allocate_device;

constexpr std::size_t kPoolBytes = std::size_t{6} << 30;
constexpr double kCacheBytes = 60e6;  // L2 of an H200

}  // namespace

double floor_us(const MlaBenchResult& result, const MlaCeilings& ceilings) {
  return std::max(result.bytes / ceilings.gigabytes_per_second * 1e-3,
                  result.flops / ceilings.teraflops * 1e-6);
}

MlaBench::MlaBench() : pool_bytes_(kPoolBytes) {
  pool_ = allocate_device(pool_bytes_);
  q_bytes_ = std::size_t{256} * 8 * 128 * cuda::kMlaDim * 2;
  q_ = allocate_device(q_bytes_);
  fill_random_rows(KvFormat::kBF16, q_.get(), q_bytes_, 99, nullptr);
}

std::string MlaBench::device_line() const {
  int device = 0;
  cudaDeviceProp properties{};
  TS_CUDA(cudaGetDevice(&device));
  TS_CUDA(cudaGetDeviceProperties(&properties, device));
  int driver = 0;
  TS_CUDA(cudaDriverGetVersion(&driver));
  return std::string(properties.name) + ", " + std::to_string(properties.multiProcessorCount) +
         " multiprocessors, CUDA driver " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

double MlaBench::measured_copy_gbps() const {
  const std::size_t half = std::size_t{2} << 30;
  std::vector<double> times;
  for (int i = 0; i < 10; ++i) {
    const auto from = make_timed_event();
    const auto to = make_timed_event();
    TS_CUDA(cudaEventRecord(from.get()));
    TS_CUDA(cudaMemcpyAsync(pool_.get() + half, pool_.get(), half, cudaMemcpyDeviceToDevice));
    TS_CUDA(cudaEventRecord(to.get()));
    TS_CUDA(cudaDeviceSynchronize());
    times.push_back(elapsed_us(from, to));
  }
  return 2.0 * static_cast<double>(half) / spread(times)[1] * 1e-3;
}

MlaBenchResult MlaBench::time(const MlaBenchCase& problem, int timings) const {
  const std::int32_t apart = problem.tokens_apart ? problem.q_tokens : 1;  // rows of the table a sequence
  const std::int32_t q_tokens = problem.q_tokens / apart;
  const std::int32_t seqs = static_cast<std::int32_t>(problem.lengths.size()) * apart;
  const std::int32_t longest = *std::max_element(problem.lengths.begin(), problem.lengths.end());
  const std::int32_t max_blocks = std::max((longest + 63) / 64, 1);
  int device = 0;
  TS_CUDA(cudaGetDevice(&device));
  auto layout = cuda::mla_decode_layout({.kv = problem.kv,
                                         .seqs = seqs,
                                         .q_tokens = q_tokens,
                                         .heads = problem.heads,
                                         .max_blocks = max_blocks,
                                         .fixed_split_tiles = problem.fixed_split_tiles,
                                         .kernel = problem.kernel,
                                         .parts = problem.parts,
                                         .fp8_math = problem.fp8_math},
                                        cuda::traits_of(device));
  TS_CHECK(layout.ok(), layout.error().message());
  if (problem.late >= 0) layout->late = problem.late != 0;
  if (problem.piece_overhead >= 0) layout->piece_overhead = problem.piece_overhead;
  if (problem.split_cost >= 0) layout->split_cost = problem.split_cost;
  MlaBenchResult result{.layout = *layout};

  const std::int64_t row_bytes = *kv_row_bytes(problem.kv, KvRowShape::mla(cuda::kMlaLatent, cuda::kMlaRope));
  const std::int64_t page_bytes = row_bytes * cuda::kMlaBlockSize;
  const auto pool_pages = static_cast<std::int32_t>(static_cast<std::int64_t>(pool_bytes_) / page_bytes);
  std::int32_t pages = 0;
  std::int64_t rows = 0;
  for (const std::int32_t length : problem.lengths) {
    pages += (length + 63) / 64;
    rows += length;
  }
  TS_CHECK(pages <= pool_pages, pages, pool_pages);
  const std::int64_t tokens = std::int64_t{seqs} * q_tokens;
  TS_CHECK(static_cast<std::size_t>(tokens * problem.heads * cuda::kMlaDim * 2) <= q_bytes_);
  result.bytes =
      static_cast<double>(rows * row_bytes + tokens * problem.heads * (cuda::kMlaDim + cuda::kMlaLatent) * 2);
  result.flops =
      2.0 * static_cast<double>(rows) * problem.q_tokens * problem.heads * (cuda::kMlaDim + cuda::kMlaLatent);

  // Random pages; as many disjoint sets as pass four caches before one repeats, as far as the pool goes.
  const double set_bytes = std::max(static_cast<double>(pages) * static_cast<double>(page_bytes), 1.0);
  const int sets = static_cast<int>(std::clamp(4.0 * kCacheBytes / set_bytes + 1.0, 1.0,
                                               static_cast<double>(pool_pages / std::max(pages, 1))));
  std::vector<std::int32_t> order(static_cast<std::size_t>(pool_pages));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(5);
  std::shuffle(order.begin(), order.end(), random);
  const std::size_t table_size = static_cast<std::size_t>(seqs) * static_cast<std::size_t>(max_blocks);
  std::vector<std::int32_t> tables(table_size * static_cast<std::size_t>(sets), -1);
  std::size_t page = 0;
  for (std::size_t set = 0; set < static_cast<std::size_t>(sets); ++set) {
    for (std::size_t seq = 0; seq < problem.lengths.size(); ++seq) {
      for (std::int32_t b = 0; b < (problem.lengths[seq] + 63) / 64; ++b) {
        for (std::int32_t token = 0; token < apart; ++token) {
          const std::size_t row = seq * static_cast<std::size_t>(apart) + static_cast<std::size_t>(token);
          tables[set * table_size + row * static_cast<std::size_t>(max_blocks) +
                 static_cast<std::size_t>(b)] = order[page];
        }
        ++page;
      }
    }
  }
  fill_random_rows(problem.kv, pool_.get(), static_cast<std::size_t>(pool_pages * page_bytes), 3, nullptr);

  const auto device_tables = allocate_device(tables.size() * 4);
  TS_CUDA(cudaMemcpy(device_tables.get(), tables.data(), tables.size() * 4, cudaMemcpyHostToDevice));
  std::vector<std::int32_t> seen;  // [seqs], rows of the last query token
  for (const std::int32_t length : problem.lengths) {
    for (std::int32_t token = apart - 1; token >= 0; --token) seen.push_back(length - token);
  }
  const auto lengths = allocate_device(seen.size() * 4);
  TS_CUDA(cudaMemcpy(lengths.get(), seen.data(), seen.size() * 4, cudaMemcpyHostToDevice));
  const auto workspace = allocate_device(layout->workspace_bytes);
  const auto out = allocate_device(static_cast<std::size_t>(tokens * problem.heads * cuda::kMlaLatent) * 2);
  const auto lse = allocate_device(static_cast<std::size_t>(tokens * problem.heads) * 4);
  cuda::MlaDecodeWork work{.q = q_.get(),
                           .kv = {.data = pool_.get(),
                                  .format = problem.kv,
                                  .shape = KvRowShape::mla(cuda::kMlaLatent, cuda::kMlaRope),
                                  .blocks = pool_pages,
                                  .block_size = cuda::kMlaBlockSize,
                                  .row_bytes = row_bytes},
                           .lengths = {.kv_rows = reinterpret_cast<const std::int32_t*>(lengths.get())},
                           .softmax_scale = 0.0721687836F,
                           .out = out.get(),
                           .lse = reinterpret_cast<float*>(lse.get())};

  std::vector<cuda::Event> events;
  for (int i = 0; i < 2 * timings; ++i) events.push_back(make_timed_event());
  const auto check = [](const Result<void>& done) { TS_CHECK(done.ok(), done.error().message()); };
  // Three untimed rounds first. The spin hides the host: everything timed is queued before the device reaches
  // it.
  const auto run = [&](auto&& enqueue) {
    for (int i = 0; i < 3; ++i) enqueue(i);
    TS_CUDA(cudaDeviceSynchronize());
    spin(2'000'000, nullptr);
    for (int i = 0; i < timings; ++i) {
      TS_CUDA(cudaEventRecord(events[static_cast<std::size_t>(2 * i)].get()));
      enqueue(3 + i);
      TS_CUDA(cudaEventRecord(events[static_cast<std::size_t>(2 * i + 1)].get()));
    }
    TS_CUDA(cudaDeviceSynchronize());
    std::vector<double> times;
    for (int i = 0; i < timings; ++i) {
      times.push_back(
          elapsed_us(events[static_cast<std::size_t>(2 * i)], events[static_cast<std::size_t>(2 * i + 1)]));
    }
    return spread(times);
  };
  result.plan_us =
      run([&](int) { check(cuda::mla_plan(*layout, work.lengths, workspace.get(), nullptr)); })[1];
  const auto times = run([&](int i) {
    work.block_table = reinterpret_cast<const std::int32_t*>(device_tables.get()) +
                       static_cast<std::size_t>(i % sets) * table_size;
    check(cuda::mla_decode(*layout, work, workspace.get(), nullptr));
  });
  result.low_us = times[0];
  result.median_us = times[1];
  result.high_us = times[2];
  return result;
}

}  // namespace tessera::bench

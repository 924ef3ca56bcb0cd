#include "bench/mla/expanded_bench.h"

#include <vector>

#include "backend/cuda/mla_prefill.h"
#include "base/check.h"
#include "bench/mla/event_times.h"
#include "bench/mla/random_fill.h"

namespace tessera::bench {
namespace {

constexpr std::int32_t kNope = 128, kRope = 64, kLatent = 512, kValue = 128;

cuda::DeviceBytes random_rows(std::int64_t values, std::uint64_t seed) {
  const auto bytes = static_cast<std::size_t>(values) * 2;
  cuda::DeviceBytes rows = cuda::allocate_device(bytes);
  fill_random_rows(KvFormat::kBF16, rows.get(), bytes, seed, nullptr);
  return rows;
}

template <class T>
cuda::DeviceBytes upload(const std::vector<T>& host) {
  cuda::DeviceBytes there = cuda::allocate_device(host.size() * sizeof(T));
  TS_CUDA(cudaMemcpy(there.get(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return there;
}

}  // namespace

ExpandedBenchResult time_expanded(const ExpandedBenchCase& problem, int timings) {
  int device = 0;
  TS_CUDA(cudaGetDevice(&device));
  const cuda::DeviceTraits traits = cuda::traits_of(device);
  const std::int64_t tokens = problem.tokens;
  const std::int64_t heads = problem.heads;
  const std::vector<std::int32_t> query_start = {0, problem.tokens};
  std::vector<std::int32_t> visible;
  for (std::int32_t t = 0; t < problem.tokens; ++t) visible.push_back(problem.context + t + 1);
  const cuda::PrefillPlan plan =
      cuda::plan_prefill(query_start.data(), visible.data(), 1, static_cast<std::int32_t>(cuda::kChunkRows));

  const auto q = random_rows(tokens * heads * (kNope + kRope), 1);
  const auto latents = random_rows(cuda::kChunkRows * (kLatent + kRope), 2);
  const auto keys = random_rows(cuda::kChunkRows * heads * kNope, 3);
  const auto values = random_rows(cuda::kChunkRows * heads * kValue, 4);
  const auto out = cuda::allocate_device(static_cast<std::size_t>(tokens * heads * kValue) * 2);
  const auto lse = cuda::allocate_device(static_cast<std::size_t>(tokens * heads) * 4);
  const auto pieces = upload(plan.pieces);
  const auto tiles = upload(plan.tiles);
  const auto rows_seen = upload(visible);
  const std::size_t counter_bytes = plan.rounds.size() * 4;
  const auto counters = cuda::allocate_device(counter_bytes);

  cuda::PrefillRun run{
      .shape = {.heads = heads, .nope = kNope, .rope = kRope, .latent = kLatent, .value = kValue},
      .scale = 0.0721687836F,
      .q = Tensor::dense(q.get(), DType::kBF16, tokens, heads * (kNope + kRope)),
      .out = Tensor::dense(out.get(), DType::kBF16, tokens, heads * kValue),
      .lse = reinterpret_cast<float*>(lse.get()),
      .lse_stride = heads,
      .latents = latents.get(),
      .keys = keys.get(),
      .values = values.get()};
  run.batch.seqs = 1;
  run.batch.tokens = problem.tokens;
  run.batch.visible_rows = reinterpret_cast<const std::int32_t*>(rows_seen.get());
  const auto attend = [&] {
    for (std::size_t r = 0; r < plan.rounds.size(); ++r) {
      run.round = plan.rounds[r];
      run.pieces = reinterpret_cast<const cuda::PrefillPiece*>(pieces.get()) + run.round.first_piece;
      run.tiles = reinterpret_cast<const cuda::PrefillTile*>(tiles.get()) + run.round.first_tile;
      run.counter = reinterpret_cast<std::int32_t*>(counters.get()) + r;
      if (problem.portable) {
        launch_expanded_attention_mma(run, nullptr);
      } else {
        TS_CHECK(has_expanded_attention_sm90(run, traits), traits.capability);
        launch_expanded_attention_sm90(run, traits, nullptr);
      }
    }
  };

  std::vector<double> times;
  for (int i = 0; i < 2 + timings; ++i) {
    const auto from = make_timed_event();
    const auto to = make_timed_event();
    TS_CUDA(cudaMemsetAsync(counters.get(), 0, counter_bytes));
    spin(200'000, nullptr);  // hides the host, which makes tensor maps
    TS_CUDA(cudaEventRecord(from.get()));
    attend();
    TS_CUDA(cudaEventRecord(to.get()));
    TS_CUDA(cudaDeviceSynchronize());
    if (i >= 2) times.push_back(elapsed_us(from, to));
  }
  double pairs = 0;
  for (const std::int32_t rows : visible) pairs += rows;
  const auto [low, median, high] = spread(times);
  return {.median_us = median,
          .low_us = low,
          .high_us = high,
          .flops = 2.0 * static_cast<double>(heads) * pairs * (kNope + kRope + kValue)};
}

}  // namespace tessera::bench

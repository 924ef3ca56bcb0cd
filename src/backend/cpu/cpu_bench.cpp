// The CPU back-end beside what this machine can do: reading memory (for decode-shaped products) and OpenBLAS
// sgemm (for prefill-shaped ones). Shapes are Kimi-K2's: hidden 7168, o_proj 8192 wide, experts 2048 wide,
// vocabulary 163,840.
//
//   backend_cpu_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
//
// The last argument of a name is the number of threads. Rates are by wall time. Matrices are larger than any
// private cache; run on an idle machine, the ceilings in the same run.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <chrono>
#include <cstring>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/read_sweep.h"
#include "backend/cpu/test_data.h"
#include "backend/cpu/thread_pool.h"

extern "C" void openblas_set_num_threads(int threads);

namespace tessera {
namespace {

using test::Random;
using test::rows_of;

constexpr std::int64_t kColdBytes = std::int64_t{128} << 20;

// The shortest lap.
class Best {
 public:
  class Lap {
   public:
    explicit Lap(Best& best) : best_(best), start_(Clock::now()) {}
    ~Lap() {
      best_.seconds_ = std::min(best_.seconds_, std::chrono::duration<double>(Clock::now() - start_).count());
    }
    Lap(const Lap&) = delete;
    Lap& operator=(const Lap&) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    Best& best_;
    Clock::time_point start_;
  };

  // `amount` of bytes or operations a lap, as 1e9 a second.
  void rate(benchmark::State& state, const char* name, double amount) const {
    state.counters[name] = amount / seconds_ / 1e9;
    state.counters["best_us"] = seconds_ * 1e6;
  }

 private:
  double seconds_ = std::numeric_limits<double>::infinity();
};

// 16 MiB at a time.
void read_memory(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const std::int64_t words = std::int64_t{1} << 21;
  const auto backend = make_cpu_backend({.threads = 1});
  const Buffer memory = backend->allocate(static_cast<std::size_t>(kColdBytes));
  // Pages that nobody wrote are all one page of zeros, which stays in the first cache.
  std::memset(memory.get(), 1, static_cast<std::size_t>(kColdBytes));
  const auto* all = static_cast<const std::uint64_t*>(memory.get());
  std::int64_t turn = 0;
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    const std::uint64_t* data = all + turn++ % (kColdBytes / 8 / words) * words;
    benchmark::DoNotOptimize(sum_words(pool, data, words));
  }
  best.rate(state, "GB/s", static_cast<double>(words) * 8);
}
BENCHMARK(read_memory)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void sgemm(benchmark::State& state) {
  const std::int64_t rows = state.range(0), out = state.range(1), in = 2048;
  openblas_set_num_threads(static_cast<int>(state.range(2)));
  Random random(1);
  const std::vector<float> x = random.normals(rows * in), w = random.normals(out * in);
  std::vector<float> y(static_cast<std::size_t>(rows * out));
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows), static_cast<int>(out),
                static_cast<int>(in), 1, x.data(), static_cast<int>(in), w.data(), static_cast<int>(in), 0,
                y.data(), static_cast<int>(out));
    benchmark::DoNotOptimize(y.data());
  }
  best.rate(state, "GFLOP/s", 2.0 * static_cast<double>(rows * out * in));
}
BENCHMARK(sgemm)
    ->ArgNames({"rows", "out", "threads"})
    ->ArgsProduct({{240, 512}, {256, 2048}, {1, 2}})
    ->UseRealTime();

// One random block of rows, repeated: filling 60 million weights with random numbers takes longer than timing
// them.
Weight weight_of(Backend& backend, WeightFormat format, std::int64_t out, std::int64_t in) {
  Random random(1);
  const std::int64_t block = 128;
  static_assert(block % 128 == 0);
  const test::OwnedMatrix matrix = test::random_matrix(random, format, block, in);
  const std::vector<HostMatrix> parts(static_cast<std::size_t>(out / block), matrix.view);
  return backend.prepare(parts);
}

void linear(benchmark::State& state, WeightFormat format, std::int64_t rows, std::int64_t out,
            std::int64_t in, int threads) {
  const auto backend = make_cpu_backend({.threads = threads});
  std::vector<Weight> weights;
  do {
    weights.push_back(weight_of(*backend, format, out, in));
  } while (static_cast<std::int64_t>(weights.size()) * weights[0].bytes < kColdBytes);
  Random random(2);
  std::vector<float> x = random.normals(rows * in);
  std::vector<float> y(static_cast<std::size_t>(rows * out));
  std::size_t turn = 0;
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    backend->linear(rows_of(x, rows, in), weights[turn++ % weights.size()], rows_of(y, rows, out));
    benchmark::DoNotOptimize(y.data());
  }
  best.rate(state, "GB/s", static_cast<double>(weights[0].bytes));
  best.rate(state, "GFLOP/s", 2.0 * static_cast<double>(rows * out * in));
}
// 7 to 8 MB of an expert's gate or up: half a millisecond's reading in every format.
void decode(benchmark::State& state, WeightFormat format) {
  const std::int64_t out = format == WeightFormat::kF32           ? 256
                           : format == WeightFormat::kBF16        ? 512
                           : format == WeightFormat::kFp8Block128 ? 1024
                                                                  : 2048;
  linear(state, format, state.range(0), out, 7168, static_cast<int>(state.range(1)));
}
void prefill(benchmark::State& state, WeightFormat format) {
  linear(state, format, state.range(0), state.range(1), 2048, static_cast<int>(state.range(2)));
}

#define TESSERA_FOR_FORMATS(function, ...)                                                  \
  BENCHMARK_CAPTURE(function, f32, WeightFormat::kF32)->__VA_ARGS__->UseRealTime();         \
  BENCHMARK_CAPTURE(function, bf16, WeightFormat::kBF16)->__VA_ARGS__->UseRealTime();       \
  BENCHMARK_CAPTURE(function, fp8, WeightFormat::kFp8Block128)->__VA_ARGS__->UseRealTime(); \
  BENCHMARK_CAPTURE(function, int4, WeightFormat::kInt4Group32)->__VA_ARGS__->UseRealTime()
TESSERA_FOR_FORMATS(decode, ArgNames({"rows", "threads"})->ArgsProduct({{1, 4, 16}, {1, 2}}));
TESSERA_FOR_FORMATS(prefill,
                    ArgNames({"rows", "out", "threads"})->ArgsProduct({{240, 512}, {256, 2048}, {1, 2}}));
#undef TESSERA_FOR_FORMATS

// Sequences of `kv` tokens, `queries` query tokens each at their end.
struct AttentionCase {
  AttentionCase(const KvRowShape& shape, KvFormat format, std::int32_t seqs, std::int32_t kv,
                std::int32_t queries)
      : random(1),
        lengths(static_cast<std::size_t>(seqs), kv),
        cache(random, format, shape, 64, lengths),
        batch(cache, lengths, std::vector<std::int32_t>(static_cast<std::size_t>(seqs), queries)) {
    std::fill(cache.bytes.begin(), cache.bytes.end(),
              std::byte{0x3c});  // a number near 0.01 to 1 in every format
  }
  Random random;
  std::vector<std::int32_t> lengths;
  test::Cache cache;
  test::Batch batch;
};

void mla_decode(benchmark::State& state, KvFormat format) {
  const std::int64_t heads = state.range(0);
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(3))});
  const AttentionCase c(KvRowShape::mla(512, 64), format, static_cast<std::int32_t>(state.range(1)),
                        static_cast<std::int32_t>(state.range(2)), 1);
  const std::int64_t tokens = c.batch.view.tokens;
  Random random(2);
  std::vector<float> q = random.normals(tokens * heads * 576),
                     out(static_cast<std::size_t>(tokens * heads * 512));
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    backend->mla_decode(rows_of(q, tokens, heads * 576), heads, 0.07F, c.batch.view, c.cache.layer,
                        rows_of(out, tokens, heads * 512), {});
  }
  const double rows = static_cast<double>(tokens) * static_cast<double>(state.range(2));
  best.rate(state, "GB/s", rows * static_cast<double>(c.cache.layer.row_bytes));
  best.rate(state, "GFLOP/s", rows * static_cast<double>(heads) * 2 * (576 + 512));
}
#define TESSERA_MLA_DECODE(name, format)               \
  BENCHMARK_CAPTURE(mla_decode, name, format)          \
      ->ArgNames({"heads", "seqs", "kv", "threads"})   \
      ->ArgsProduct({{8, 64}, {1, 8}, {1024}, {1, 2}}) \
      ->UseRealTime()
TESSERA_MLA_DECODE(f32, KvFormat::kF32);
TESSERA_MLA_DECODE(bf16, KvFormat::kBF16);
TESSERA_MLA_DECODE(fp8_ds_mla, KvFormat::kFp8Grouped);
#undef TESSERA_MLA_DECODE

void mla_prefill(benchmark::State& state) {
  const std::int64_t heads = 8, nope = 128, rope = 64, value = 128, latent = 512;
  const auto queries = static_cast<std::int32_t>(state.range(0));
  const auto kv = static_cast<std::int32_t>(state.range(1));
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(2))});
  const AttentionCase c(KvRowShape::mla(512, 64), KvFormat::kBF16, 1, kv, queries);
  Random random(2);
  const WeightStack up = backend->prepare_stack_f32(WeightFormat::kBF16, heads, nope, latent,
                                                    random.normals(heads * nope * latent, 0.05F));
  std::vector<float> q = random.normals(queries * heads * (nope + rope));
  std::vector<float> out(static_cast<std::size_t>(queries * heads * value));
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    backend->mla_prefill(rows_of(q, queries, heads * (nope + rope)), heads, 0.07F, c.batch.view,
                         c.cache.layer, up, up, rows_of(out, queries, heads * value), {});
  }
  const double pairs =
      static_cast<double>(queries) * (static_cast<double>(kv) - 0.5 * static_cast<double>(queries - 1));
  const double expand = 2.0 * static_cast<double>(kv * latent * (nope + value));
  best.rate(state, "GFLOP/s",
            static_cast<double>(heads) * (pairs * 2 * static_cast<double>(nope + rope + value) + expand));
}
BENCHMARK(mla_prefill)
    ->ArgNames({"queries", "kv", "threads"})
    ->ArgsProduct({{512}, {512, 2048}, {1, 2}})
    ->UseRealTime();

void gqa(benchmark::State& state, std::int32_t queries) {
  const std::int64_t heads = 32, dim = 128;
  const auto kv = static_cast<std::int32_t>(state.range(1));
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(2))});
  const AttentionCase c(KvRowShape::gqa(8, 128), KvFormat::kBF16, static_cast<std::int32_t>(state.range(0)),
                        kv, queries);
  const std::int64_t tokens = c.batch.view.tokens;
  Random random(2);
  std::vector<float> q = random.normals(tokens * heads * dim), out(q.size());
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    backend->gqa_attention(rows_of(q, tokens, heads * dim), heads, 0.09F, c.batch.view, c.cache.layer,
                           rows_of(out, tokens, heads * dim), {});
  }
  double pairs = 0;
  for (const std::int32_t seen : c.batch.visible) pairs += static_cast<double>(seen);
  best.rate(state, "GB/s",
            static_cast<double>(state.range(0) * kv) * static_cast<double>(c.cache.layer.row_bytes));
  best.rate(state, "GFLOP/s", pairs * static_cast<double>(heads * dim) * 4);
}
BENCHMARK_CAPTURE(gqa, decode, 1)
    ->ArgNames({"seqs", "kv", "threads"})
    ->ArgsProduct({{1, 8}, {2048}, {1, 2}})
    ->UseRealTime();
BENCHMARK_CAPTURE(gqa, prefill, 512)
    ->ArgNames({"seqs", "kv", "threads"})
    ->ArgsProduct({{1}, {512}, {1, 2}})
    ->UseRealTime();

// 32 of Kimi's 384 experts, so that the stack fits a small machine; a token takes 8.
void moe(benchmark::State& state) {
  const std::int64_t experts = 32, top_k = 8, hidden = 7168, width = 2048, tokens = state.range(0);
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(1))});
  Random random(1);
  const test::OwnedMatrix gate = test::random_matrix(random, WeightFormat::kInt4Group32, 128, hidden);
  const test::OwnedMatrix down_part = test::random_matrix(random, WeightFormat::kInt4Group32, 128, width);
  const WeightStack gate_up = backend->prepare_stack(experts, [&](std::int64_t) {
    return std::vector<HostMatrix>(static_cast<std::size_t>(2 * width / 128), gate.view);
  });
  const WeightStack down = backend->prepare_stack(experts, [&](std::int64_t) {
    return std::vector<HostMatrix>(static_cast<std::size_t>(hidden / 128), down_part.view);
  });
  std::vector<float> x = random.normals(tokens * hidden), out(x.size());
  std::vector<float> weights(static_cast<std::size_t>(tokens * top_k), 0.125F);
  std::vector<std::int32_t> ids;
  std::vector<bool> touched(static_cast<std::size_t>(experts));
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t first = random.whole(0, 3);
    for (std::int64_t k = 0; k < top_k; ++k) {
      ids.push_back(static_cast<std::int32_t>((first + 4 * k + t / 4 * 7) % experts));
      touched[static_cast<std::size_t>(ids.back())] = true;
    }
  }
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    backend->moe(rows_of(x, tokens, hidden), rows_of(ids, tokens, top_k), rows_of(weights, tokens, top_k), 0,
                 gate_up, down, rows_of(out, tokens, hidden));
  }
  const auto read = static_cast<double>(std::count(touched.begin(), touched.end(), true));
  best.rate(state, "GB/s", read * static_cast<double>((gate_up.bytes + down.bytes) / experts));
  best.rate(state, "GFLOP/s",
            static_cast<double>(tokens * top_k) * 6.0 * static_cast<double>(hidden * width));
}
BENCHMARK(moe)->ArgNames({"tokens", "threads"})->ArgsProduct({{1, 8, 64}, {1, 2}})->UseRealTime();

void sample(benchmark::State& state, const SamplingRow& row) {
  const std::int64_t rows = state.range(0), vocab = 163840;
  const auto backend = make_cpu_backend({.threads = static_cast<int>(state.range(1))});
  Random random(1);
  const std::vector<float> one = random.normals(vocab, 3);
  std::vector<float> logits(static_cast<std::size_t>(rows * vocab));
  std::vector<SamplingRow> all(static_cast<std::size_t>(rows), row);
  std::vector<SampledToken> results(all.size());
  Best best;
  for (auto _ : state) {
    const Best::Lap lap(best);
    for (std::int64_t r = 0; r < rows; ++r) std::copy(one.begin(), one.end(), logits.begin() + r * vocab);
    for (SamplingRow& each : all) ++each.draw;
    backend->sample(rows_of(logits, rows, vocab), all, results);
  }
  best.rate(state, "Glogits/s", static_cast<double>(rows * vocab));
}
#define TESSERA_SAMPLE(name, ...)                           \
  BENCHMARK_CAPTURE(sample, name, SamplingRow{__VA_ARGS__}) \
      ->ArgNames({"rows", "threads"})                       \
      ->Args({1, 1})                                        \
      ->Args({8, 2})                                        \
      ->UseRealTime()
TESSERA_SAMPLE(greedy, .temperature = 0);
TESSERA_SAMPLE(temperature, .temperature = 0.7F);
TESSERA_SAMPLE(top_p, .temperature = 0.7F, .top_p = 0.95F);
TESSERA_SAMPLE(top_k, .temperature = 0.7F, .top_k = 50);
TESSERA_SAMPLE(all, .temperature = 0.7F, .top_k = 50, .top_p = 0.95F, .min_p = 0.01F);
TESSERA_SAMPLE(logprobs, .temperature = 0.7F, .logprobs = 20);
#undef TESSERA_SAMPLE

}  // namespace
}  // namespace tessera

// tessera-mla-bench: the table of decode attention against its bounds.
//
//   tessera-mla-bench [table] [search] [uneven] [invariant] [portable] [math] [bf16] [fp8] [fp8_ds_mla]
//   [only=ROW] tessera-mla-bench prefill
//
// math: products on e4m3, for fp8 rows. invariant: what batch-invariant mode costs. prefill: expanded
// attention alone.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cuda_layout/attention_layout.h"
#include "bench/mla/expanded_bench.h"
#include "bench/mla/mla_bench.h"

namespace tessera::bench {
namespace {

struct Row {
  std::int32_t batch, context, heads, q_tokens;
  double flash_us;   // FlashMLA, bf16 rows; 0: not measured
  double triton_us;  // vLLM's Triton kernel at its best split
  double target_bf16_us, target_fp8_us;
};
constexpr Row kRows[] = {
    {1, 2048, 64, 1, 27.5, 25.8, 20, 18},     {1, 32768, 64, 1, 57.7, 87.3, 45, 40},
    {1, 131072, 64, 1, 85.2, 251, 75, 60},    {8, 32768, 64, 1, 99.8, 445, 92, 75},
    {8, 32768, 64, 4, 220.7, 0, 215, 215},    {32, 8192, 64, 1, 99.4, 445, 92, 75},
    {128, 1024, 64, 1, 55.3, 241, 50, 42},    {128, 16384, 64, 1, 634, 3324, 600, 450},
    {128, 16384, 64, 4, 1664, 0, 1640, 1640}, {128, 16384, 8, 1, 579, 842, 560, 300},
    {128, 16384, 128, 1, 887, 0, 870, 870},
};

MlaBenchCase even(const Row& row, KvFormat kv) {
  return {.lengths = std::vector<std::int32_t>(static_cast<std::size_t>(row.batch), row.context),
          .heads = row.heads,
          .q_tokens = row.q_tokens,
          .kv = kv};
}

const char* kernel_name(cuda::MlaKernel kernel) {
  return kernel == cuda::MlaKernel::kSm90 ? "sm90" : "portable";
}

void print_row(const Row& row, KvFormat kv, const MlaBenchResult& r) {
  const double floor = floor_us(r, {});
  std::printf(
      "%4d %7d %4d %2d  %-10s %-8s %-5s %4d  %8.1f (%7.1f..%7.1f) %8.1f %5.1f%%  %5.0f %6.1f  %4.1f  %7.0f "
      "%7.1f\n",
      row.batch, row.context, row.heads, row.q_tokens, std::string(name_of(kv)).c_str(),
      kernel_name(r.layout.kernel), r.layout.late ? "late" : "early", r.layout.parts, r.median_us, r.low_us,
      r.high_us, floor, 100.0 * floor / r.median_us, r.bytes / r.median_us * 1e-3,
      r.flops / r.median_us * 1e-6, r.plan_us, kv == KvFormat::kBF16 ? row.target_bf16_us : row.target_fp8_us,
      row.flash_us);
  std::fflush(stdout);
}

// Every fixed split that could make sense, coarse to fine; the best of them beside the planner's own
// division.
void print_search(const MlaBench& bench, const Row& row, KvFormat kv, double planned_us) {
  const std::int32_t tiles = row.context / 64;
  double best = 1e30;
  std::int32_t best_pieces = 0;
  std::int32_t last_size = 0;
  for (std::int32_t pieces = 1; pieces <= 264 && pieces <= tiles; pieces += pieces < 8    ? 1
                                                                            : pieces < 32 ? 4
                                                                                          : 12) {
    const std::int32_t size = (tiles + pieces - 1) / pieces;
    if (size == last_size || row.batch * pieces > 4 * 132 * 8) continue;
    last_size = size;
    MlaBenchCase problem = even(row, kv);
    problem.fixed_split_tiles = size;
    const double us = bench.time(problem, 20).median_us;
    if (us < best) {
      best = us;
      best_pieces = pieces;
    }
  }
  std::printf("%4d %7d %4d %2d  %-10s planner %8.1f  best fixed split %8.1f (%d pieces)  planner/best %.3f\n",
              row.batch, row.context, row.heads, row.q_tokens, std::string(name_of(kv)).c_str(), planned_us,
              best, best_pieces, planned_us / best);
  std::fflush(stdout);
}

void print_uneven(const MlaBench& bench, KvFormat kv) {
  // 64 sequences, lengths 1 to 131,072 on a logarithmic scale; and as many of the mean length.
  std::mt19937 random(11);
  std::vector<std::int32_t> lengths{1, 131072};
  while (lengths.size() < 64) {
    const double share = std::uniform_real_distribution<double>(0.0, 17.0)(random);
    lengths.push_back(static_cast<std::int32_t>(std::exp2(share)));
  }
  std::int64_t total = 0;
  for (const std::int32_t length : lengths) total += length;
  const std::vector<std::int32_t> same(64, static_cast<std::int32_t>(total / 64));
  for (const int q_tokens : {1, 4}) {
    const auto uneven = bench.time({.lengths = lengths, .q_tokens = q_tokens, .kv = kv}, 20);
    const auto even = bench.time({.lengths = same, .q_tokens = q_tokens, .kv = kv}, 20);
    std::printf(
        "uneven %-10s q %d: 64 sequences of 1..131072, %lld rows: %8.1f us; even %8.1f us; ratio %.3f\n",
        std::string(name_of(kv)).c_str(), q_tokens, static_cast<long long>(total), uneven.median_us,
        even.median_us, uneven.median_us / even.median_us);
  }
  std::fflush(stdout);
}

// As the back-end's batch-invariant mode runs a batch: single tokens, split every so many tiles.
void print_invariant(const MlaBench& bench, const Row& row, KvFormat kv) {
  MlaBenchCase problem = even(row, kv);
  const double planned = bench.time(problem, 20).median_us;
  problem.fixed_split_tiles = cuda::kFixedSplitTiles;
  problem.tokens_apart = true;
  const double fixed = bench.time(problem, 20).median_us;
  std::printf("%4d %7d %4d %2d  %-10s planner %8.1f us  batch-invariant %8.1f us  ratio %.3f\n", row.batch,
              row.context, row.heads, row.q_tokens, std::string(name_of(kv)).c_str(), planned, fixed,
              fixed / planned);
  std::fflush(stdout);
}

void print_prefill() {
  for (const auto& [tokens, context] : {std::pair{2048, 0}, {8192, 0}, {2048, 32768}, {512, 131072}}) {
    for (const bool portable : {false, true}) {
      const auto r = time_expanded({.tokens = tokens, .context = context, .portable = portable}, 10);
      const double tflops = r.flops / r.median_us * 1e-6;
      std::printf(
          "prefill, 64 heads, %4d tokens after %6d, %-8s %9.1f us (%9.1f..%9.1f) %6.1f TFLOP/s %5.1f%%\n",
          tokens, context, portable ? "portable" : "sm90", r.median_us, r.low_us, r.high_us, tflops,
          100 * tflops / MlaCeilings{}.teraflops);
      std::fflush(stdout);
    }
  }
}

int run(int argc, char** argv) {
  bool table = false;
  bool search = false;
  bool uneven = false;
  bool portable = false;
  bool invariant = false;
  int only = -1;
  MlaBenchCase experiment;
  std::vector<KvFormat> formats;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "table")
      table = true;
    else if (word == "search")
      search = true;
    else if (word == "uneven")
      uneven = true;
    else if (word == "invariant")
      invariant = true;
    else if (word == "prefill" && argc == 2) {
      print_prefill();
      return 0;
    } else if (word == "math")
      experiment.fp8_math = true;
    else if (word == "portable")
      portable = true;
    else if (word == "bf16")
      formats.push_back(KvFormat::kBF16);
    else if (word == "fp8")
      formats.push_back(KvFormat::kFp8);
    else if (word == "fp8_ds_mla")
      formats.push_back(KvFormat::kFp8Grouped);
    else if (word.starts_with("only="))
      only = std::atoi(argv[i] + 5);
    else if (word.starts_with("late="))
      experiment.late = std::atoi(argv[i] + 5);
    else if (word.starts_with("parts="))
      experiment.parts = std::atoi(argv[i] + 6);
    else if (word.starts_with("overhead="))
      experiment.piece_overhead = std::atoi(argv[i] + 9);
    else if (word.starts_with("split_cost="))
      experiment.split_cost = std::atoi(argv[i] + 11);
    else {
      std::fprintf(stderr,
                   "tessera-mla-bench: '%s'; expected table, search, uneven, invariant, portable, math, "
                   "bf16, fp8, fp8_ds_mla or only=ROW, or prefill alone\n",
                   argv[i]);
      return 2;
    }
  }
  if (formats.empty()) formats = {KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped};
  const MlaBench bench;
  std::printf("%s; copy %.0f GB/s (read + written)\n", bench.device_line().c_str(),
              bench.measured_copy_gbps());
  std::printf(
      "batch context heads q  rows       kernel   order parts | median us (10%%..90%%) | floor us, share | "
      "GB/s TFLOP/s | planner us | "
      "target us | FlashMLA us\n");
  for (const KvFormat kv : formats) {
    for (int i = 0; i < static_cast<int>(std::size(kRows)); ++i) {
      if (only >= 0 && i != only) continue;
      if (invariant) print_invariant(bench, kRows[i], kv);
      if (!table && !search && !portable) continue;
      MlaBenchCase problem = experiment;
      const MlaBenchCase row = even(kRows[i], kv);
      problem.lengths = row.lengths;
      problem.heads = row.heads;
      problem.q_tokens = row.q_tokens;
      problem.kv = kv;
      if (portable) problem.kernel = cuda::MlaKernel::kPortable;
      const MlaBenchResult result = bench.time(problem, 30);
      print_row(kRows[i], kv, result);
      if (search) print_search(bench, kRows[i], kv, result.median_us);
    }
    if (uneven) print_uneven(bench, kv);
  }
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  try {
    return tessera::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera-mla-bench: %s\n", error.what());
    return 1;
  }
}

// How fast a layer is read, against the digest alone, which every reader must compute.
//
// The layer has 4,000 files of 16 KiB: the median size of a file in an installed vLLM with its dependencies
// lies near that.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

#include "stack/source/layer.h"
#include "stack/source/test_archive.h"

namespace tessera::stack {
namespace {

const std::string& layer() {
  static const std::string bytes = [] {
    std::mt19937 random(1);
    std::string text(16 << 10, '\0');
    std::vector<TarItem> items;
    for (int i = 0; i < 4000; ++i) {
      std::generate(text.begin(), text.end(), [&] { return static_cast<char>('a' + random() % 26); });
      items.push_back(
          file("usr/lib/python3/site-packages/p" + std::to_string(i % 50) + "/m" + std::to_string(i) + ".py",
               text));
    }
    return make_tar(items);
  }();
  return bytes;
}

void Digest(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(sha256_digest(layer()));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(layer().size()));
}
BENCHMARK(Digest)->Unit(benchmark::kMillisecond)->Name("layer/sha256_alone");

// Names only, as for what lies outside the asked path and is large.
void Names(benchmark::State& state) {
  const LayerWishes wishes{.hash = [](std::size_t, std::string_view, std::uint64_t) { return false; }};
  for (auto _ : state) {
    MemoryBytes bytes(layer(), 1 << 20);
    benchmark::DoNotOptimize(read_layer(bytes, wishes, {}, "bench"));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(layer().size()));
}
BENCHMARK(Names)->Unit(benchmark::kMillisecond)->Name("layer/names");

// With git's id of every file.
void Ids(benchmark::State& state) {
  for (auto _ : state) {
    MemoryBytes bytes(layer(), 1 << 20);
    benchmark::DoNotOptimize(read_layer(bytes, {}, {}, "bench"));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(layer().size()));
}
BENCHMARK(Ids)->Unit(benchmark::kMillisecond)->Name("layer/ids");

}  // namespace
}  // namespace tessera::stack

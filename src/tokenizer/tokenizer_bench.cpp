// Encoding and streaming speed on prose and code, in MB/s of text. The text is this repository's own
// documentation and sources, repeated to 1 MiB: long enough that nothing but the tables stays in cache.
#include <benchmark/benchmark.h>

#include <fstream>

#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace tessera {
namespace {

const std::string kRoot = TESSERA_SOURCE_DIR;

std::string repeated(const std::string& path) {
  std::ifstream file(kRoot + path);
  const std::string once{std::istreambuf_iterator<char>(file), {}};
  std::string text;
  while (!once.empty() && text.size() < (1U << 20)) text += once;
  return text;
}

void encode(benchmark::State& state, const char* path) {
  const Tokenizer tokenizer = *Tokenizer::load(kRoot + "/models/tessera-tiny");
  const std::string text = repeated(path);
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ids = tokenizer.encode(text, ControlTokens::kRecognise);
    tokens = ids->size();
    benchmark::DoNotOptimize(ids);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}
BENCHMARK_CAPTURE(encode, prose, "/models/tessera-tiny/README.md");
BENCHMARK_CAPTURE(encode, code, "/src/tokenizer/bpe.cpp");

void stream(benchmark::State& state) {
  const Tokenizer tokenizer = *Tokenizer::load(kRoot + "/models/tessera-tiny");
  const auto ids = *tokenizer.encode(repeated("/models/tessera-tiny/README.md"), ControlTokens::kRecognise);
  for (auto _ : state) {
    Detokenizer detokenizer(tokenizer);
    for (const auto id : ids) benchmark::DoNotOptimize(detokenizer.push(id));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * ids.size()));
}
BENCHMARK(stream);

}  // namespace
}  // namespace tessera

// Encoding and streaming speed on prose and code, in MB/s of text. The text is this repository's own
// documentation and sources, repeated to 1 MiB: long enough that nothing but the tables stays in cache.
#include <benchmark/benchmark.h>

#include <fstream>

#include "tokenizer/detokenizer.h"
#include "tokenizer/hf_json.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/utf8.h"

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

// A byte as a benchmark's name can hold it.
std::string fmt_byte(char c) {
  if (c > 0x20 && c < 0x7f && c != '/') return {c};
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  return {'%', kDigits[byte / 16], kDigits[byte % 16]};
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

// Five million characters that somebody sends to hold the server up; two seconds are the limit.
void hostile(benchmark::State& state, const char* tokenizer_file, const char* unit) {
  const std::string file = tokenizer_file;
  const Tokenizer tokenizer = [&] {
    if (file == "tiny") return *Tokenizer::load(kRoot + "/models/tessera-tiny");
    std::ifstream in(kRoot + "/src/tokenizer/testdata/" + file + "_tokenizer.json");
    return *make_hf_tokenizer(std::string{std::istreambuf_iterator<char>(in), {}}, {}, file);
  }();
  std::string text;
  for (std::size_t i = 0; i < 5'000'000 / count_points(unit); ++i) text += unit;
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.encode(text, ControlTokens::kRecognise));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
const int kHostile = [] {
  for (const char* tokenizer : {"tiny", "qwen", "llama", "deepseek"}) {
    for (const char* unit : {"a",
                             "A",
                             " ",
                             "\n",
                             " \n",
                             "\t ",
                             "!",
                             "7",
                             "中",
                             "<",
                             "<|",
                             "é",
                             "aA",
                             "Aa",
                             "'",
                             "'s",
                             "\xCC\x81",
                             "\xCC\x81\xCC\x96",
                             "\xF0\x9F\xA6\x99",
                             "\xE0\xB8\xB2",
                             " !",
                             "\r",
                             "a\xCC\x81"}) {
      std::string shown;
      for (const char c : std::string_view(unit)) shown += fmt_byte(c);
      benchmark::RegisterBenchmark(("hostile/" + std::string(tokenizer) + "/" + shown).c_str(), hostile,
                                   tokenizer, unit)
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
  return 0;
}();

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

// The first visit of a state's mask, over a vocabulary as large as Kimi's: 163,840 random texts whose lengths
// are distributed as in such vocabularies (1 to 16 bytes, 6 at the middle), over an alphabet of 40 with
// quotes, brackets and digits in it, so that many tokens cross the borders of JSON's parts.
#include <benchmark/benchmark.h>

#include <nlohmann/json.hpp>
#include <random>

#include "server/grammar/grammar_matcher.h"
#include "server/grammar/schema_compiler.h"

namespace tessera {
namespace {

const TokenTrie& trie() {
  static const TokenTrie made = [] {
    std::mt19937 random(7);
    std::binomial_distribution<std::size_t> length(15, 0.35);
    constexpr std::string_view kAlphabet = "etaoinshrdlucmfwypvbgkjqxz  012345\"{}[],";
    static std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    while (texts.size() < 163'840) {
      std::string text(length(random) + 1, ' ');
      // Squared, so that common letters lead and prefixes are shared.
      for (char& c : text) {
        const double x = std::uniform_real_distribution<double>(0, 1)(random);
        c = kAlphabet[static_cast<std::size_t>(x * x * static_cast<double>(kAlphabet.size()))];
      }
      texts.push_back(std::move(text));
    }
    return TokenTrie({texts.begin(), texts.end()});
  }();
  return made;
}

constexpr const char* kSchema = R"({"type":"object","properties":{"name":{"type":"string"},
    "tags":{"type":"array","items":{"type":"string"}},"n":{"type":"number"},
    "code":{"type":"string","maxLength":20}},"required":["name","tags","n","code"]})";

ByteGrammar grammar() { return *compile_schema(nlohmann::ordered_json::parse(kSchema)); }

// The time of one first mask after `text`, with a matcher that is new; the library holds what other schemas
// found out before (`warm`) or nothing.
void first_mask(benchmark::State& state, const char* text, bool warm) {
  const auto library = std::make_shared<MaskLibrary>();
  const auto visit = [&] {
    GrammarMatcher matcher(grammar(), trie(), library);
    return matcher.allowed(matcher.read(matcher.start(), text));
  };
  if (warm) visit();
  for (auto _ : state) {
    state.PauseTiming();
    GrammarMatcher matcher(grammar(), trie(), warm ? library : std::make_shared<MaskLibrary>());
    const auto at = matcher.read(matcher.start(), text);
    state.ResumeTiming();
    benchmark::DoNotOptimize(matcher.allowed(at));
  }
  state.counters["trie_nodes"] = static_cast<double>(trie().nodes().size());
}

BENCHMARK_CAPTURE(first_mask, start, "", true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, string_of_a_new_process, "{\"name\":\"a", false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, string_of_a_new_schema, "{\"name\":\"a", true)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, string_in_array, "{\"name\":\"\",\"tags\":[\"a", true)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, number, "{\"name\":\"\",\"tags\":[],\"n\":1", true)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, bounded_string, "{\"name\":\"\",\"tags\":[],\"n\":1,\"code\":\"a", true)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, bounded_string_of_a_new_process,
                  "{\"name\":\"\",\"tags\":[],\"n\":1,\"code\":\"a", false)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(first_mask, bounded_string_near_its_end,
                  "{\"name\":\"\",\"tags\":[],\"n\":1,\"code\":\"aaaaaaaaaaaaaaaa", true)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera

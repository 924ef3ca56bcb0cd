// Schemas come from clients: whatever they are, they compile or are refused, and what compiles can be run.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "server/grammar/grammar_matcher.h"
#include "server/grammar/schema_compiler.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  if (size > 4096) return 0;
  const auto* text = reinterpret_cast<const char*>(data);
  const auto schema = nlohmann::ordered_json::parse(text, text + size, nullptr, false);
  if (schema.is_discarded()) return 0;
  auto grammar = compile_schema(schema);
  if (!grammar || grammar->nodes.size() > 20'000) return 0;
  const TokenTrie trie({"{", "}", "[", "]", "\"", ":", ",", "a", "1", "true", "null", " ", "\n"});
  GrammarMatcher matcher(*std::move(grammar), trie);
  auto state = matcher.start();
  for (std::size_t i = 0; i < 64 && state != GrammarMatcher::kDead; ++i) {
    const auto mask = matcher.allowed(state);
    if ((*mask)[0] == 0) break;
    const auto token = static_cast<std::size_t>(__builtin_ctzll((*mask)[0]));
    state = matcher.read(state, std::string(1, "{}[]\":,a1tn \n"[token]));
  }
  return 0;
}

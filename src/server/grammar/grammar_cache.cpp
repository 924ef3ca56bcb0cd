#include "server/grammar/grammar_cache.h"

#include <nlohmann/json.hpp>

#include "server/grammar/schema_compiler.h"

namespace tessera {

Result<std::shared_ptr<GrammarMatcher>> GrammarCache::of_schema(const nlohmann::ordered_json& schema) {
  std::string key = schema.dump();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  ByteGrammar grammar;
  if (schema.is_null()) {
    grammar = any_json_object();
  } else {
    TS_TRY(grammar, compile_schema(schema));
  }
  auto made = std::make_shared<GrammarMatcher>(std::move(grammar), trie_, library_);
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMost) known_.clear();
  return known_.try_emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace tessera

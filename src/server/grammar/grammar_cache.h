// Compiled grammars by their schema's text: clients send one schema many times, and what a matcher has worked
// out about it (states, masks) is worth keeping.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "server/grammar/grammar_matcher.h"

namespace tessera {

class GrammarCache {
 public:
  // Borrows the trie.
  explicit GrammarCache(const TokenTrie& trie) : trie_(trie) {}

  // Null: any JSON object.
  Result<std::shared_ptr<GrammarMatcher>> of_schema(const nlohmann::ordered_json& schema);

 private:
  static constexpr std::size_t kMost = 64;  // then it starts afresh; running requests keep theirs

  const TokenTrie& trie_;
  std::shared_ptr<MaskLibrary> library_ = std::make_shared<MaskLibrary>();  // shared with the matchers
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<GrammarMatcher>> known_;
};

}  // namespace tessera

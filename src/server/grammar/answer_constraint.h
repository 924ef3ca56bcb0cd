// The TokenConstraints of requests: a JSON answer, or forced tool calls, each perhaps after a thought.
// Structure is made of control tokens, text of grammars.
//
//   JSON    [thought </think>] document, then only an end token
//   tools   [thought </think>] section_begin (call_begin ID argument_begin ARGUMENTS call_end)+ section_end
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/sampling_params.h"
#include "server/grammar/grammar_matcher.h"
#include "server/output/stream_splitter.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

// What constraints need to know of a model; made once.
struct ConstraintVocabulary {
  ConstraintVocabulary(const Tokenizer& tokenizer, std::int32_t vocab, std::vector<std::int32_t> end_tokens);

  std::int32_t vocab;  // of the logits; may be wider than the tokenizer's
  std::vector<std::int32_t> end_tokens;
  MarkerIds markers;
  std::vector<std::string> texts;  // [tokenizer's vocabulary]; empty for control tokens and holes
  TokenTrie trie;
  std::vector<std::uint64_t> thought;  // what may appear in a thought: all text
};

struct ForcedFunction {
  std::string name;
  std::shared_ptr<GrammarMatcher> arguments;  // shared with other requests for the same schema
};

struct ForcedCalls {
  std::vector<ForcedFunction> functions;
  std::int32_t first_index = 0;  // IDX of the first call
  bool several = true;           // more than one call may come
};

// min_tokens of a constrained answer. The engine bans ending tokens blindly, and where the grammar allows
// nothing else no token is left; here they are banned only while there is another way on.
struct LeastLength {
  std::int32_t tokens = 0;
  std::vector<std::int32_t> stop_tokens = {};  // banned until then, besides the model's end tokens
};

// `start`: as for the splitter; kUndecided: a thought may come or not.
std::shared_ptr<TokenConstraint> make_json_constraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                                                      std::shared_ptr<GrammarMatcher> document,
                                                      SplitterOptions::Start start, LeastLength least = {});
std::shared_ptr<TokenConstraint> make_tool_constraint(std::shared_ptr<const ConstraintVocabulary> vocabulary,
                                                      ForcedCalls calls, SplitterOptions::Start start,
                                                      LeastLength least = {});

}  // namespace tessera

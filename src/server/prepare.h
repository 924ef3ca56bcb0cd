// From a request's JSON to what the engine runs: protocol, chat template, tokenizer, limits. Pure work on
// const data, so it runs on any thread.
#pragma once

#include <chrono>
#include <string>

#include "server/generation.h"
#include "server/grammar/answer_constraint.h"
#include "server/grammar/grammar_cache.h"
#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"
#include "server/server.h"

namespace tessera {

// Made once when the model is attached.
struct PrepareContext {
  const ServerOptions& options;
  ServedModel model;
  MarkerIds markers = {};
  Json default_kwargs = {};  // of the chat template
  GenerationLimits limits = {};
  std::size_t most_bytes_per_token = 1;
  // Shared with the constraints of running requests, which outlive the call that made them.
  std::shared_ptr<const ConstraintVocabulary> vocabulary = {};
  std::shared_ptr<GrammarCache> grammars = {};
};

PrepareContext make_prepare_context(const ServerOptions& options, const ServedModel& model);

ApiResult<PreparedGeneration> prepare_chat(const PrepareContext& context, const Json& body, std::string id);
ApiResult<PreparedGeneration> prepare_completion(const PrepareContext& context, const Json& body,
                                                 std::string id);
// The tokens of a chat prompt, and the IDX of the conversation's next tool call.
struct ChatTokens {
  std::vector<std::int32_t> tokens = {};
  std::int32_t next_tool = 0;
  bool thinking_off = false;  // the request or the operator switched it off
};
ApiResult<ChatTokens> tokenize_chat(const PrepareContext& context, ChatPrompt prompt);

}  // namespace tessera

// POST /v1/chat/completions (and the chat form of /tokenize).
#pragma once

#include "server/protocol/generation_options.h"

namespace tessera {

struct ToolFunction {
  std::string name;
  Json parameters;  // JSON schema; null: any object
};

struct ToolChoice {
  enum Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = kNone;
  std::string name;         // for kNamed
  bool explicitly = false;  // the request says so; otherwise it follows from the presence of tools
};

struct ResponseFormat {
  enum Kind { kText, kJsonObject, kJsonSchema };
  Kind kind = kText;
  Json schema;  // for kJsonSchema
};

// What becomes the prompt.
struct ChatPrompt {
  Json messages = Json::array();  // as sent, checked for shape; chat_history.h prepares them for the template
  Json tools;                     // as sent; null: none
  Json documents;                 // null: none
  Json kwargs = Json::object();   // chat_template_kwargs
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

struct ChatRequest {
  GenerationOptions options;
  ChatPrompt prompt;
  std::vector<ToolFunction> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  ResponseFormat response_format;
  bool include_reasoning = true;
  bool echo = false;  // repeat the last message's text before the answer
};

ApiResult<ChatRequest> read_chat_request(const Json& body, const GenerationLimits& limits);

// The fields of ChatPrompt alone.
ChatPrompt read_chat_prompt(Fields& in, ErrorSlot& slot);

}  // namespace tessera

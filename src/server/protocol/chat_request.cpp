#include "server/protocol/chat_request.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};

// Text parts only: the models served here read nothing else.
void check_content(const Json& content, ErrorSlot& slot, const std::string& path) {
  if (content.is_string() || content.is_null()) return;
  if (!content.is_array()) {
    slot.set(bad_request(
        path, "'" + path + "' must be a string or an array of parts, not " + describe(content) + ".",
        "invalid_type"));
    return;
  }
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string part_path = path + "[" + std::to_string(i) + "]";
    if (content[i].is_string()) continue;
    Fields part(content[i], slot, part_path);
    const std::string type = part.string("type").value_or("");
    if (type == "text") {
      if (!part.string("text"))
        slot.set(bad_request(part_path + ".text", "'" + part_path + ".text' is missing."));
    } else if (type == "refusal") {
      part.string("refusal");
    } else {
      slot.set(bad_request(part_path + ".type",
                           "'" + part_path + "' has the type \"" + type.substr(0, 40) +
                               "\"; this model reads parts of type \"text\" only.",
                           "unsupported_content"));
    }
  }
}

void check_message(const Json& message, ErrorSlot& slot, const std::string& path) {
  Fields in(message, slot, path);
  const auto role = in.string("role");
  if (!role) {
    in.refuse("role", "'" + path + ".role' is missing.", "missing_field");
    return;
  }
  if (std::ranges::find(kRoles, *role) == kRoles.end()) {
    in.refuse("role",
              "'" + path + ".role' is \"" + role->substr(0, 40) +
                  "\"; known are system, developer, user, assistant and tool.",
              "invalid_value");
  }
  const Json* content = in.find("content");
  if (content == nullptr) {
    if (*role != "assistant") in.refuse("content", "'" + path + ".content' is missing.", "missing_field");
  } else {
    check_content(*content, slot, path + ".content");
  }
  in.string("name");
  in.string("tool_call_id");
  in.string("reasoning_content");
  if (const Json* calls = in.array("tool_calls")) {
    for (std::size_t i = 0; i < calls->size(); ++i) {
      Fields call((*calls)[i], slot, path + ".tool_calls[" + std::to_string(i) + "]");
      call.object("function");  // whatever is in it is history, and history is not argued with
    }
  }
}

std::vector<ToolFunction> read_tools(const Json& tools, ErrorSlot& slot) {
  std::vector<ToolFunction> out;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = "tools[" + std::to_string(i) + "]";
    Fields tool(tools[i], slot, path);
    const std::string type = tool.string("type").value_or("function");
    if (type != "function") {
      tool.refuse("type",
                  "'" + path + ".type' is \"" + type.substr(0, 40) + "\"; only \"function\" is known.");
    }
    const Json* function = tool.object("function");
    if (function == nullptr) {
      tool.refuse("function", "'" + path + ".function' is missing.", "missing_field");
      break;
    }
    Fields in(*function, slot, path + ".function");
    ToolFunction one;
    one.name = in.string("name").value_or("");
    if (one.name.empty() || one.name.size() > 256) {
      in.refuse("name", "'" + path + ".function.name' must have from 1 to 256 bytes.");
    }
    in.string("description");
    if (const Json* parameters = in.object("parameters")) one.parameters = *parameters;
    out.push_back(std::move(one));
  }
  return out;
}

ToolChoice read_tool_choice(Fields& in, ErrorSlot& slot, const std::vector<ToolFunction>& tools) {
  ToolChoice out;
  const Json* choice = in.find("tool_choice");
  if (choice == nullptr) {
    out.kind = tools.empty() ? ToolChoice::kNone : ToolChoice::kAuto;
    return out;
  }
  out.explicitly = true;
  if (choice->is_string()) {
    const auto& text = choice->get_ref<const std::string&>();
    if (text == "auto") {
      out.kind = tools.empty() ? ToolChoice::kNone : ToolChoice::kAuto;
    } else if (text == "required") {
      out.kind = ToolChoice::kRequired;
    } else if (text != "none") {
      in.refuse("tool_choice",
                "'tool_choice' is \"" + text.substr(0, 40) +
                    "\"; known are auto, none, required and {\"type\": \"function\", \"function\": "
                    "{\"name\": …}}.",
                "invalid_value");
    }
  } else if (choice->is_object()) {
    Fields object(*choice, slot, "tool_choice");
    if (object.string("type").value_or("") != "function") {
      object.refuse("type", "'tool_choice.type' must be \"function\".", "invalid_value");
    }
    const Json* function = object.object("function");
    if (function == nullptr) {
      object.refuse("function", "'tool_choice.function' is missing.", "missing_field");
      return out;
    }
    Fields named(*function, slot, "tool_choice.function");
    out.kind = ToolChoice::kNamed;
    out.name = named.string("name").value_or("");
    if (std::ranges::find(tools, out.name, &ToolFunction::name) == tools.end()) {
      named.refuse("name",
                   "'tool_choice' names the function \"" + out.name.substr(0, 256) +
                       "\", which 'tools' does not declare.",
                   "invalid_value");
    }
  } else {
    in.refuse_type("tool_choice", "a string or an object", *choice);
  }
  if (out.kind == ToolChoice::kRequired && tools.empty()) {
    in.refuse("tool_choice", "'tool_choice' is \"required\", but 'tools' is empty.", "invalid_value");
  }
  return out;
}

ResponseFormat read_response_format(Fields& in, ErrorSlot& slot) {
  ResponseFormat out;
  const Json* format = in.object("response_format");
  if (format == nullptr) return out;
  Fields object(*format, slot, "response_format");
  const std::string type = object.string("type").value_or("");
  if (type == "json_object") {
    out.kind = ResponseFormat::kJsonObject;
  } else if (type == "json_schema") {
    out.kind = ResponseFormat::kJsonSchema;
    const Json* wrapper = object.object("json_schema");
    if (wrapper == nullptr) {
      object.refuse("json_schema", "'response_format.json_schema' is missing.", "missing_field");
      return out;
    }
    Fields inner(*wrapper, slot, "response_format.json_schema");
    inner.string("name");
    inner.boolean("strict");
    const Json* schema = inner.find("schema");
    if (schema == nullptr) {
      inner.refuse("schema", "'response_format.json_schema.schema' is missing.", "missing_field");
      return out;
    }
    out.schema = *schema;
  } else if (type != "text") {
    object.refuse("type",
                  "'response_format.type' is \"" + type.substr(0, 40) +
                      "\"; known are text, json_object and json_schema.",
                  "invalid_value");
  }
  return out;
}

}  // namespace

ChatPrompt read_chat_prompt(Fields& in, ErrorSlot& slot) {
  ChatPrompt out;
  const Json* messages = in.array("messages");
  if (messages == nullptr) {
    in.refuse("messages", "'messages' is missing.", "missing_field");
    return out;
  }
  if (messages->empty()) in.refuse("messages", "'messages' is empty.", "invalid_value");
  for (std::size_t i = 0; i < messages->size(); ++i) {
    check_message((*messages)[i], slot, "messages[" + std::to_string(i) + "]");
  }
  out.messages = *messages;
  if (const Json* tools = in.array("tools"); tools != nullptr && !tools->empty()) out.tools = *tools;
  if (const Json* documents = in.array("documents")) out.documents = *documents;
  if (const Json* kwargs = in.object("chat_template_kwargs")) out.kwargs = *kwargs;
  out.add_generation_prompt = in.boolean("add_generation_prompt").value_or(true);
  out.continue_final_message = in.boolean("continue_final_message").value_or(false);
  if (out.continue_final_message) {
    // vLLM wants add_generation_prompt turned off by hand; when it is merely absent the meaning is clear.
    if (out.add_generation_prompt && in.find("add_generation_prompt") != nullptr) {
      in.refuse("continue_final_message",
                "'continue_final_message' and 'add_generation_prompt' cannot both be true.", "invalid_value");
    }
    out.add_generation_prompt = false;
    if (!messages->empty() && messages->back().is_object() &&
        messages->back().value("role", "") != "assistant") {
      in.refuse("continue_final_message", "'continue_final_message' needs an assistant message at the end.",
                "invalid_value");
    }
  }
  if (const auto effort = in.string("reasoning_effort"); effort && !out.kwargs.contains("reasoning_effort")) {
    out.kwargs["reasoning_effort"] = *effort;
  }
  for (const char* name : {"functions", "function_call"}) {
    if (in.find(name) != nullptr) {
      in.refuse(name, std::string("'") + name +
                          "' was replaced by 'tools' and 'tool_choice', and is not supported.");
    }
  }
  if (in.string("chat_template")) {
    in.refuse("chat_template", "'chat_template' cannot be given by a request; the operator sets it.");
  }
  return out;
}

ApiResult<ChatRequest> read_chat_request(const Json& body, const GenerationLimits& limits) {
  ErrorSlot slot;
  Fields in(body, slot);
  ChatRequest out;
  out.options = read_generation_options(in, slot, limits);
  GenerationOptions& options = out.options;
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  auto max_tokens = in.integer("max_completion_tokens", 1, kMax);
  if (const auto old_name = in.integer("max_tokens", 1, kMax); !max_tokens) max_tokens = old_name;
  if (max_tokens) {
    options.max_tokens = static_cast<std::int32_t>(*max_tokens);
    if (options.sampling.min_tokens > *options.max_tokens) {
      in.refuse("min_tokens", "'min_tokens' (" + std::to_string(options.sampling.min_tokens) +
                                  ") is larger than 'max_tokens' (" + std::to_string(*options.max_tokens) +
                                  ").");
    }
  }
  const bool logprobs = in.boolean("logprobs").value_or(false);
  const auto top = in.integer("top_logprobs", 0, limits.max_logprobs);
  if (top && *top > 0 && !logprobs) {
    in.refuse("top_logprobs", "'top_logprobs' has a meaning only with 'logprobs': true.", "invalid_value");
  }
  if (logprobs) options.sampling.logprobs = static_cast<std::int32_t>(top.value_or(0));

  out.prompt = read_chat_prompt(in, slot);
  if (out.prompt.tools.is_array()) out.tools = read_tools(out.prompt.tools, slot);
  out.tool_choice = read_tool_choice(in, slot, out.tools);
  out.parallel_tool_calls = in.boolean("parallel_tool_calls").value_or(true);
  out.response_format = read_response_format(in, slot);
  out.include_reasoning = in.boolean("include_reasoning").value_or(true);
  out.echo = in.boolean("echo").value_or(false);
  if (const Json* modalities = in.array("modalities")) {
    for (const Json& one : *modalities) {
      if (one != "text") in.refuse("modalities", "'modalities' may hold \"text\" only.", "invalid_value");
    }
  }
  if (in.find("audio") != nullptr) in.refuse("audio", "'audio' is not supported.");
  if (slot.error) return *std::move(slot.error);
  return out;
}

}  // namespace tessera

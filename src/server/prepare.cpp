#include "server/prepare.h"

#include <algorithm>
#include <chrono>

#include "server/chat_start.h"
#include "server/protocol/chat_history.h"

namespace tessera {
namespace {

ApiError model_not_found(const std::string& asked, const std::vector<std::string>& served) {
  std::string names;
  for (const std::string& name : served) names += (names.empty() ? "" : ", ") + name;
  return {.status = 404,
          .message = "The model '" + asked.substr(0, 200) + "' is not served here; served: " + names + ".",
          .param = "model",
          .code = "model_not_found"};
}

// Answers carry the name that was asked for.
ApiResult<std::string> resolve_model(const PrepareContext& context, const std::string& asked) {
  const auto& served = context.options.served_names;
  if (asked.empty() && !served.empty()) return served.front();
  if (std::ranges::find(served, asked) == served.end()) return model_not_found(asked, served);
  return asked;
}

// What max_tokens means for a prompt of that length, or why it cannot be answered.
ApiResult<std::int32_t> resolve_max_tokens(const PrepareContext& context, const GenerationOptions& options,
                                           std::size_t prompt_tokens, const char* prompt_field) {
  const EngineInfo& info = context.model.engine->info();
  const std::int64_t window = info.max_model_len;
  const auto prompt = static_cast<std::int64_t>(prompt_tokens);
  if (prompt == 0) return bad_request(prompt_field, "The prompt has no tokens; at least one is needed.");
  const auto too_long = [&](std::int64_t asked) {
    return bad_request(prompt_field,
                       "The maximum context length is " + std::to_string(window) + " tokens, but " +
                           std::to_string(prompt + asked) + " were requested: " + std::to_string(prompt) +
                           " in the prompt and " + std::to_string(asked) +
                           " in the completion. Shorten the prompt or ask for fewer tokens.",
                       "context_length_exceeded");
  };
  if (options.max_tokens) {
    if (prompt + *options.max_tokens > window) return too_long(*options.max_tokens);
    return *options.max_tokens;
  }
  if (prompt >= window) return too_long(1);
  // The pool may hold less than the context; what was not asked for need not fit.
  const std::int64_t held = info.kv_tokens > prompt ? std::min(window, info.kv_tokens) : window;
  return static_cast<std::int32_t>(std::min<std::int64_t>(options.default_max_tokens, held - prompt));
}

// Text so long that no tokenisation of it fits the window is refused by its length: five million bytes take
// seconds to tokenise, and a moment to count.
std::optional<ApiError> check_text_length(const PrepareContext& context, std::size_t bytes,
                                          const char* prompt_field) {
  const auto window = static_cast<std::size_t>(context.model.engine->info().max_model_len);
  const std::size_t least = bytes / context.most_bytes_per_token;
  if (least <= window) return std::nullopt;
  return bad_request(prompt_field,
                     "The maximum context length is " + std::to_string(window) +
                         " tokens, but the prompt has at least " + std::to_string(least) + " (" +
                         std::to_string(bytes) + " bytes). Shorten it.",
                     "context_length_exceeded");
}

Json merged_kwargs(const Json& defaults, const Json& given) {
  Json out = defaults;
  for (const auto& [key, value] : given.items()) out[key] = value;
  return out;
}

bool is_false(const Json& kwargs, const char* key) { return kwargs.contains(key) && kwargs[key] == false; }

// Cuts what the template wrote after the last message's text, so that the answer goes on from there.
ApiResult<std::vector<TextSegment>> cut_after_content(std::vector<TextSegment> segments, const Json& last) {
  const std::string content = last.contains("content") && last["content"].is_string() ? last["content"] : "";
  const std::size_t end = content.find_last_not_of(" \t\r\n");
  const std::string wanted = end == std::string::npos ? "" : content.substr(0, end + 1);
  while (!wanted.empty() && !segments.empty()) {
    TextSegment& segment = segments.back();
    const std::size_t found = segment.scaffold ? std::string::npos : segment.text.rfind(wanted);
    if (found != std::string::npos) {
      segment.text.resize(found + wanted.size());
      return segments;
    }
    segments.pop_back();
  }
  return bad_request(
      "continue_final_message",
      "The chat template does not write the last message's content as it is, or it is empty, so it "
      "cannot be continued.");
}

}  // namespace

PrepareContext make_prepare_context(const ServerOptions& options, const ServedModel& model) {
  PrepareContext out{.options = options, .model = model};
  out.markers = find_markers(*model.tokenizer);
  out.default_kwargs = Json::parse(options.chat_template_kwargs, nullptr, false);
  if (!out.default_kwargs.is_object()) out.default_kwargs = Json::object();
  out.limits = {.vocab = model.engine->info().vocab,
                .max_logprobs = options.max_logprobs,
                .max_choices = options.max_choices,
                .default_sampling = options.default_sampling};
  const EngineInfo& info = model.engine->info();
  out.vocabulary =
      std::make_shared<const ConstraintVocabulary>(*model.tokenizer, info.vocab, info.end_tokens);
  out.grammars = std::make_shared<GrammarCache>(out.vocabulary->trie);
  // The inside of strings, which all schemas share, is worked out before a request waits for it.
  for (const auto& [schema, text] :
       {std::pair{Json(), "{\""}, std::pair{Json{{"type", "string"}, {"maxLength", 1000}}, "\""}}) {
    if (const auto made = out.grammars->of_schema(schema)) {
      const std::shared_ptr<GrammarMatcher>& matcher = *made;
      matcher->allowed(matcher->read(matcher->start(), text));
    }
  }
  std::size_t longest = std::max<std::size_t>(out.vocabulary->trie.depth(), 1);
  for (const ControlToken& token : model.tokenizer->control_tokens())
    longest = std::max(longest, token.text.size());
  constexpr std::size_t kShrink =
      4;  // Unicode normalisation, which some tokenizers do first, may shorten text
  out.most_bytes_per_token = longest * kShrink;
  return out;
}

ApiResult<ChatTokens> tokenize_chat(const PrepareContext& context, ChatPrompt prompt) {
  if (context.model.chat_template == nullptr) {
    return bad_request("messages",
                       "The model has no chat template; use /v1/completions, or give --chat-template.");
  }
  const bool kimi = context.options.tool_call_parser == "kimi_k2";
  ChatHistory history = prepare_history(
      std::move(prompt.messages),
      {.canonical_tool_ids = kimi && context.options.canonical_tool_ids, .arguments_as_objects = !kimi});
  const Json kwargs = merged_kwargs(context.default_kwargs, prompt.kwargs);
  const ChatInput input{.messages = history.messages,
                        .tools = prompt.tools.is_array() ? &prompt.tools : nullptr,
                        .documents = prompt.documents.is_array() ? &prompt.documents : nullptr,
                        .kwargs = &kwargs,
                        .add_generation_prompt = prompt.add_generation_prompt};
  ChatTokens out{.next_tool = history.next_tool,
                 .thinking_off = is_false(kwargs, "thinking") || is_false(kwargs, "enable_thinking")};
  auto segments = context.model.chat_template->render(input);
  if (!segments) {
    ApiError error = from_error(segments.error());
    error.param = "messages";
    return error;
  }
  if (prompt.continue_final_message) {
    TS_TRY(*segments, cut_after_content(*std::move(segments), history.messages.back()));
  }
  std::size_t bytes = 0;
  for (const TextSegment& segment : *segments) bytes += segment.text.size();
  if (const auto refused = check_text_length(context, bytes, "messages")) return *refused;
  if (context.options.control_tokens_in_messages) {
    for (TextSegment& segment : *segments) segment.scaffold = true;
  }
  auto tokens = context.model.tokenizer->encode(*segments);
  if (!tokens) return from_error(tokens.error());
  out.tokens = *std::move(tokens);
  return out;
}

namespace {

AnswerIdentity identity(const PrepareContext& context, std::string id, std::string model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = std::move(id),
          .model = std::move(model),
          .fingerprint = context.model.engine->info().fingerprint,
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count()};
}

void settle_usage(const PrepareContext& context, GenerationOptions& options) {
  if (options.stream && context.options.always_include_usage) options.include_usage = true;
}

AnswerOptions answer_options(const GenerationOptions& options, std::size_t prompts) {
  return {.logprobs = options.sampling.logprobs.has_value(),
          .usage_in_chunks = options.include_usage,
          .choices = options.n * static_cast<std::int32_t>(prompts)};
}

ChoiceOptions choice_options(const PrepareContext& context, const GenerationOptions& options) {
  ChoiceOptions out;
  out.splitter.ids = context.markers;
  out.stop = options.stop;
  out.include_stop = options.include_stop;
  out.skip_special = options.skip_special;
  out.min_tokens = options.sampling.min_tokens;
  return out;
}

// Where markers are read, and what for.
void settle_parsers(const PrepareContext& context, const ChatRequest& request, const ChatTokens& prompt,
                    ChoiceOptions& choice) {
  SplitterOptions& splitter = choice.splitter;
  if (!context.options.reasoning_parser.empty()) {
    splitter.thinking = prompt.thinking_off ? MarkerMode::kSwallow : MarkerMode::kParse;
    splitter.start = start_of_answer(prompt.tokens, context.markers, context.model.engine->info().end_tokens);
  }
  const bool wants_tools = request.tool_choice.kind != ToolChoice::kNone;
  if (wants_tools) {
    splitter.tools = MarkerMode::kParse;
  } else if (!context.options.tool_call_parser.empty()) {
    splitter.tools = MarkerMode::kSwallow;
  }
  for (const ToolFunction& tool : request.tools) choice.tool_names.push_back(tool.name);
  choice.first_tool = prompt.next_tool;
}

using MakeConstraint = std::function<std::shared_ptr<TokenConstraint>(std::size_t)>;

ApiResult<std::shared_ptr<GrammarMatcher>> grammar_of(const PrepareContext& context, const Json& schema,
                                                      const std::string& param) {
  auto made = context.grammars->of_schema(schema);
  if (made) return *std::move(made);
  return bad_request(param, "The schema of '" + param + "' at " + made.error().message(),
                     "unsupported_schema");
}

// Forced tool calls and JSON answers; empty for a free answer. `start` is where the answer begins.
ApiResult<MakeConstraint> constraint_of(const PrepareContext& context, const ChatRequest& request,
                                        const ChoiceOptions& choice) {
  // Without a reasoning parser nothing of the answer is a thought, whatever the prompt ends with.
  const auto start =
      choice.splitter.thinking == MarkerMode::kParse ? choice.splitter.start : SplitterOptions::kInContent;
  const LeastLength least{.tokens = request.options.sampling.min_tokens,
                          .stop_tokens = request.options.sampling.stop_token_ids};
  const ToolChoice& tools = request.tool_choice;
  if (tools.kind == ToolChoice::kRequired || tools.kind == ToolChoice::kNamed) {
    ForcedCalls calls{.functions = {},
                      .first_index = choice.first_tool,
                      .several = tools.kind == ToolChoice::kRequired && request.parallel_tool_calls};
    for (std::size_t i = 0; i < request.tools.size(); ++i) {
      const ToolFunction& tool = request.tools[i];
      if (tools.kind == ToolChoice::kNamed && tool.name != tools.name) continue;
      const std::string param = "tools[" + std::to_string(i) + "].function.parameters";
      TS_TRY(auto arguments, grammar_of(context, tool.parameters, param));
      calls.functions.push_back({tool.name, std::move(arguments)});
      if (tools.kind == ToolChoice::kNamed) break;
    }
    return MakeConstraint([vocabulary = context.vocabulary, calls, start, least](std::size_t) {
      return make_tool_constraint(vocabulary, calls, start, least);
    });
  }
  if (request.response_format.kind == ResponseFormat::kText) return MakeConstraint();
  const bool any = request.response_format.kind == ResponseFormat::kJsonObject;
  TS_TRY(auto document, grammar_of(context, any ? Json() : request.response_format.schema,
                                   any ? "response_format" : "response_format.json_schema.schema"));
  return MakeConstraint([vocabulary = context.vocabulary, document, start, least](std::size_t) {
    return make_json_constraint(vocabulary, document, start, least);
  });
}

std::optional<ApiError> check_tools(const PrepareContext& context, const ChatRequest& request) {
  if (request.tool_choice.kind == ToolChoice::kNone) return std::nullopt;
  const bool automatic = request.tool_choice.kind == ToolChoice::kAuto;
  if (automatic && (context.options.tool_call_parser.empty() || !context.options.enable_auto_tool_choice)) {
    return bad_request(
        "tool_choice",
        "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set; the "
        "server was started without. \"required\", \"none\" and a named function work.");
  }
  if (!context.markers.has_tools()) {
    return bad_request("tools", "The model's vocabulary has no tool-call markers, so it cannot call tools.");
  }
  return std::nullopt;
}

}  // namespace

ApiResult<PreparedGeneration> prepare_chat(const PrepareContext& context, const Json& body, std::string id) {
  TS_TRY(ChatRequest request, read_chat_request(body, context.limits));
  TS_TRY(std::string model, resolve_model(context, request.options.model));
  if (const auto refused = check_tools(context, request)) return *refused;
  settle_usage(context, request.options);
  AnswerOptions answer = answer_options(request.options, 1);
  answer.include_reasoning = request.include_reasoning;
  answer.prompt_logprobs = request.options.sampling.prompt_logprobs.has_value();
  const Json& last = request.prompt.messages.back();
  // Without a turn of its own the answer belongs to the last message.
  answer.role =
      request.prompt.add_generation_prompt ? context.options.response_role : last["role"].get<std::string>();
  if (request.echo && last.contains("content") && last["content"].is_string()) {
    answer.echo_text = last["content"].get<std::string>();
  }

  TS_TRY(ChatTokens prompt, tokenize_chat(context, std::move(request.prompt)));
  TS_TRY(const std::int32_t max_tokens,
         resolve_max_tokens(context, request.options, prompt.tokens.size(), "messages"));
  PreparedGeneration out;
  out.choices.push_back(choice_options(context, request.options));
  settle_parsers(context, request, prompt, out.choices.front());
  TS_TRY(out.constrain, constraint_of(context, request, out.choices.front()));
  if (out.constrain) request.options.sampling.min_tokens = 0;  // the constraint sees to it
  out.prompts.push_back(std::move(prompt.tokens));
  out.max_tokens.push_back(max_tokens);
  out.report_prompt_logprobs = answer.prompt_logprobs;
  out.options = std::move(request.options);
  out.make_format = [&tokenizer = *context.model.tokenizer,
                     who = identity(context, "chatcmpl-" + id, std::move(model)),
                     answer] { return make_chat_format(tokenizer, who, answer); };
  return out;
}

ApiResult<PreparedGeneration> prepare_completion(const PrepareContext& context, const Json& body,
                                                 std::string id) {
  TS_TRY(CompletionRequest request, read_completion_request(body, context.limits));
  TS_TRY(std::string model, resolve_model(context, request.options.model));
  settle_usage(context, request.options);
  const Tokenizer& tokenizer = *context.model.tokenizer;
  PreparedGeneration out;
  for (CompletionPrompt& prompt : request.prompts) {
    std::vector<std::int32_t> tokens;
    if (auto* ids = std::get_if<std::vector<std::int32_t>>(&prompt)) {
      tokens = std::move(*ids);
    } else {
      const std::string& text = std::get<std::string>(prompt);
      if (const auto refused = check_text_length(context, text.size(), "prompt")) return *refused;
      // The text of a completion is the caller's whole prompt, markers and all, as everywhere.
      auto encoded = tokenizer.encode(text, ControlTokens::kRecognise);
      if (!encoded) return from_error(encoded.error());
      if (request.add_special_tokens) {
        tokens.assign(tokenizer.text_prefix().begin(), tokenizer.text_prefix().end());
      }
      tokens.insert(tokens.end(), encoded->begin(), encoded->end());
      if (request.add_special_tokens) {
        tokens.insert(tokens.end(), tokenizer.text_suffix().begin(), tokenizer.text_suffix().end());
      }
    }
    TS_TRY(const std::int32_t max_tokens,
           resolve_max_tokens(context, request.options, tokens.size(), "prompt"));
    out.prompts.push_back(std::move(tokens));
    out.max_tokens.push_back(max_tokens);
    out.choices.push_back(choice_options(context, request.options));
  }
  AnswerOptions answer = answer_options(request.options, out.prompts.size());
  answer.prompt_logprobs = body.contains("prompt_logprobs") && !body["prompt_logprobs"].is_null();
  out.report_prompt_logprobs = answer.prompt_logprobs;
  out.echo = request.echo;
  out.options = std::move(request.options);
  out.make_format = [&tokenizer, who = identity(context, "cmpl-" + id, std::move(model)), answer] {
    return make_completion_format(tokenizer, who, answer);
  };
  return out;
}

}  // namespace tessera

#include "tokenizer/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tokenizer/jinja/template.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/model_files.h"
#include "tokenizer/token_names.h"
#include "tokenizer/tool_typescript.h"

namespace tessera {

struct ChatTemplate::Parts {
  jinja::Template usual;
  std::optional<jinja::Template> with_tools;  // takes the place of `usual` when the request has tools
  bool wants_typescript = false;              // the source mentions tools_ts_str
  std::vector<std::pair<std::string, std::string>> token_names;
};

namespace {

// The template's source, and a second one for requests with tools if the model has one.
struct Sources {
  std::string usual, with_tools;
  std::string name;
};

Result<Sources> sources_in(const nlohmann::json& chat_template, const std::string& where) {
  Sources sources{.usual = {}, .with_tools = {}, .name = where};
  if (chat_template.is_string()) {
    sources.usual = chat_template.get<std::string>();
    return sources;
  }
  if (!chat_template.is_array()) {
    return Error{ErrorKind::kCorrupt, where, "Expected a string, or an array of named templates."};
  }
  for (const auto& entry : chat_template) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("template") || !entry["template"].is_string()) {
      return Error{ErrorKind::kCorrupt, where,
                   "Expected objects with the strings \"name\" and \"template\"."};
    }
    if (entry["name"] == "default") sources.usual = entry["template"].get<std::string>();
    if (entry["name"] == "tool_use") sources.with_tools = entry["template"].get<std::string>();
  }
  if (sources.usual.empty())
    return Error{ErrorKind::kNotFound, where, "None of the templates is named \"default\"."};
  return sources;
}

Result<ChatTemplate> make(const Sources& sources,
                          std::vector<std::pair<std::string, std::string>> token_names) {
  TS_TRY(jinja::Template usual, jinja::Template::parse(sources.usual, sources.name));
  std::optional<jinja::Template> with_tools;
  if (!sources.with_tools.empty()) {
    TS_TRY(with_tools, jinja::Template::parse(sources.with_tools, sources.name + " (tool_use)"));
  }
  const bool wants_typescript =
      (sources.usual + sources.with_tools).find("tools_ts_str") != std::string::npos;
  return ChatTemplate(std::make_unique<ChatTemplate::Parts>(ChatTemplate::Parts{
      std::move(usual), std::move(with_tools), wants_typescript, std::move(token_names)}));
}

bool given(const nlohmann::ordered_json* json) { return json != nullptr && !json->is_null(); }

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::load(const std::filesystem::path& model_folder) {
  const auto config_path = model_folder / "tokenizer_config.json";
  const auto jinja_path = model_folder / "chat_template.jinja";
  const bool has_config = std::filesystem::exists(config_path);
  std::string config_text;
  TokenNames names;
  if (has_config) {
    TS_TRY(config_text, read_model_file(config_path));
    TS_TRY(names, read_token_names(config_text, config_path.string()));
  }
  if (std::filesystem::exists(jinja_path)) {
    TS_TRY(std::string source, read_model_file(jinja_path));
    return make({.usual = std::move(source), .with_tools = {}, .name = jinja_path.string()},
                std::move(names.named));
  }
  if (has_config) {
    TS_TRY(const nlohmann::json config, parse_json_object(config_text, config_path.string()));
    if (const auto found = config.find("chat_template"); found != config.end() && !found->is_null()) {
      TS_TRY(const Sources sources, sources_in(*found, config_path.string() + ": chat_template"));
      return make(sources, std::move(names.named));
    }
  }
  return Error{ErrorKind::kNotFound, model_folder.string(),
               "The model has no chat template: neither chat_template.jinja nor chat_template in "
               "tokenizer_config.json. Name a file with --chat-template."};
}

Result<ChatTemplate> ChatTemplate::parse(
    std::string source, std::string name,
    const std::vector<std::pair<std::string, std::string>>& token_names) {
  return make({.usual = std::move(source), .with_tools = {}, .name = std::move(name)}, token_names);
}

Result<std::vector<TextSegment>> ChatTemplate::render(const ChatInput& input,
                                                      const ChatTemplateLimits& limits) const {
  if (!input.messages.is_array()) {
    return Error{ErrorKind::kInvalidArgument, "messages",
                 std::string("Expected an array, found ") + input.messages.type_name() + "."};
  }
  if (given(input.kwargs) && !input.kwargs->is_object()) {
    return Error{ErrorKind::kInvalidArgument, "chat_template_kwargs",
                 std::string("Expected an object, found ") + input.kwargs->type_name() + "."};
  }
  std::vector<std::pair<std::string, jinja::Value>> names;  // later ones win
  try {
    for (const auto& [name, text] : parts_->token_names) names.emplace_back(name, jinja::scaffold(text));
    if (given(input.kwargs)) {
      for (const auto& [name, value] : input.kwargs->items())
        names.emplace_back(name, jinja::from_json(value));
    }
    names.emplace_back("messages", jinja::from_json(input.messages));
    names.emplace_back("documents", given(input.documents) ? jinja::from_json(*input.documents)
                                                           : jinja::Value(jinja::None{}));
    names.emplace_back("add_generation_prompt", input.add_generation_prompt);
    jinja::Value tools = jinja::None{};
    if (given(input.tools)) {
      tools = jinja::from_json(*input.tools);
      if (parts_->wants_typescript && !input.tools->empty()) {
        const nlohmann::ordered_json sorted = with_sorted_keys(*input.tools);
        tools = jinja::from_json(sorted);
        // A schema that has no TypeScript form leaves the name undefined; the template then writes JSON.
        if (const auto text = tools_as_typescript(sorted))
          names.emplace_back("tools_ts_str", jinja::foreign(*text));
      }
    }
    names.emplace_back("tools", std::move(tools));
  } catch (const jinja::Failure& failure) {
    return Error{failure.kind, "chat request", failure.what};
  }
  const jinja::Template& chosen =
      given(input.tools) && parts_->with_tools ? *parts_->with_tools : parts_->usual;
  TS_TRY(
      const jinja::Text text,
      chosen.render(names, {.steps = limits.steps, .text_bytes = limits.output_bytes, .depth = limits.depth},
                    input.now));
  std::vector<TextSegment> segments;
  std::size_t begin = 0;
  for (const auto& run : text.runs()) {
    const bool scaffold = !run.foreign || input.in_messages == ControlTokens::kRecognise;
    const std::string_view part = text.view().substr(begin, run.end - begin);
    if (!segments.empty() && segments.back().scaffold == scaffold) {
      segments.back().text += part;
    } else {
      segments.push_back({std::string(part), scaffold});
    }
    begin = run.end;
  }
  return segments;
}

Result<std::vector<std::int32_t>> encode_chat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                              const ChatInput& input, const ChatTemplateLimits& limits) {
  TS_TRY(const std::vector<TextSegment> segments, chat.render(input, limits));
  return tokenizer.encode(segments);
}

std::string joined(const std::vector<TextSegment>& segments) {
  std::string text;
  for (const TextSegment& segment : segments) text += segment.text;
  return text;
}

}  // namespace tessera

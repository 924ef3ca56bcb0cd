// A model's chat template (Jinja2, as `transformers` runs it): a dialogue becomes the text of a prompt, cut
// into what the template wrote and what the dialogue wrote. Parsed once, const afterwards, safe to share
// between threads.
//
//   TS_TRY(const ChatTemplate chat, ChatTemplate::load(folder));
//   TS_TRY(const auto ids, encode_chat(chat, tokenizer, {.messages = messages, .tools = &tools}));
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

struct ChatInput {
  const nlohmann::ordered_json& messages;             // array of objects, OpenAI form
  const nlohmann::ordered_json* tools = nullptr;      // array; absent or null: the template sees none
  const nlohmann::ordered_json* documents = nullptr;  // array; absent or null: the template sees none
  const nlohmann::ordered_json* kwargs = nullptr;     // object: `chat_template_kwargs` (thinking, ...)
  bool add_generation_prompt = true;
  // For strftime_now in the template, which shows it in UTC.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  // kRecognise restores what other engines do: a message that spells a control token forges it.
  ControlTokens in_messages = ControlTokens::kAsText;
};

// A template cannot hang or flood the server: past a limit, rendering ends with kTooLarge.
struct ChatTemplateLimits {
  std::int64_t steps = 20'000'000;  // evaluated nodes and loop turns, and 64 bytes of text built count one
  std::size_t output_bytes = 256U * 1024 * 1024;  // of the whole prompt, and of any one string
  int depth = 120;                                // nested blocks, expressions, macro calls, values
};

class ChatTemplate {
 public:
  // `chat_template.jinja`, else `chat_template` in tokenizer_config.json (a string, or a list of named
  // templates: "tool_use" is taken when the request has tools, "default" otherwise). kNotFound when the
  // folder has none.
  static Result<ChatTemplate> load(const std::filesystem::path& model_folder);
  // `name` is how errors call it; the token names (bos_token, ...) are what the template sees under these
  // names.
  static Result<ChatTemplate> parse(std::string source, std::string name,
                                    const std::vector<std::pair<std::string, std::string>>& token_names = {});

  Result<std::vector<TextSegment>> render(const ChatInput& input,
                                          const ChatTemplateLimits& limits = {}) const;

  struct Parts;
  explicit ChatTemplate(std::unique_ptr<const Parts> parts);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

 private:
  std::unique_ptr<const Parts> parts_;
};

Result<std::vector<std::int32_t>> encode_chat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                              const ChatInput& input, const ChatTemplateLimits& limits = {});

// The whole text, for logs and for `/tokenize` answers.
std::string joined(const std::vector<TextSegment>& segments);

}  // namespace tessera

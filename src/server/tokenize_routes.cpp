#include "server/tokenize_routes.h"

#include "server/protocol/json_writer.h"

namespace tessera {

ApiResult<std::string> tokenize(const PrepareContext& context, const Json& body) {
  ErrorSlot slot;
  Fields in(body, slot);
  const Tokenizer& tokenizer = *context.model.tokenizer;
  in.string("model");
  const bool with_text = in.boolean("return_token_strs").value_or(false);
  const bool is_chat = in.find("messages") != nullptr;
  const bool add_special = in.boolean("add_special_tokens").value_or(!is_chat);
  std::vector<std::int32_t> tokens;
  if (is_chat) {
    ChatPrompt prompt = read_chat_prompt(in, slot);
    if (slot.error) return *std::move(slot.error);
    TS_TRY(ChatTokens chat, tokenize_chat(context, std::move(prompt)));
    tokens = std::move(chat.tokens);
  } else {
    const auto text = in.string("prompt");
    if (!text) in.refuse("prompt", "'prompt' or 'messages' is missing.", "missing_field");
    if (slot.error) return *std::move(slot.error);
    auto encoded = tokenizer.encode(*text, ControlTokens::kRecognise);
    if (!encoded) return from_error(encoded.error());
    if (add_special) tokens.assign(tokenizer.text_prefix().begin(), tokenizer.text_prefix().end());
    tokens.insert(tokens.end(), encoded->begin(), encoded->end());
    if (add_special)
      tokens.insert(tokens.end(), tokenizer.text_suffix().begin(), tokenizer.text_suffix().end());
  }
  std::string out = R"({"count":)";
  append_json_number(out, static_cast<std::int64_t>(tokens.size()));
  out += R"(,"max_model_len":)";
  append_json_number(out, std::int64_t{context.model.engine->info().max_model_len});
  out += R"(,"tokens":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_json_number(out, std::int64_t{tokens[i]});
  }
  out += R"(],"token_strs":)";
  if (with_text) {
    out += '[';
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, tokenizer.decode(std::span(&tokens[i], 1), false));
    }
    out += "]}";
  } else {
    out += "null}";
  }
  return out;
}

ApiResult<std::string> detokenize(const PrepareContext& context, const Json& body) {
  ErrorSlot slot;
  Fields in(body, slot);
  in.string("model");
  const std::int32_t vocab = context.limits.vocab;
  std::vector<std::int32_t> tokens;
  const Json* list = in.array("tokens");
  if (list == nullptr) {
    in.refuse("tokens", "'tokens' is missing.", "missing_field");
  } else {
    for (const Json& item : *list) {
      if (!item.is_number_integer() || item.get<std::int64_t>() < 0 || item.get<std::int64_t>() >= vocab) {
        in.refuse("tokens", "'tokens' holds " + describe(item) + "; token ids are integers from 0 to " +
                                std::to_string(vocab - 1) + ".");
        break;
      }
      tokens.push_back(item.get<std::int32_t>());
    }
  }
  if (slot.error) return *std::move(slot.error);
  std::string out = R"({"prompt":)";
  append_json_string(out, context.model.tokenizer->decode(tokens, false));
  out += '}';
  return out;
}

}  // namespace tessera

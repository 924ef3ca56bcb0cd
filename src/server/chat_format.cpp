// chat.completion and chat.completion.chunk.
#include "server/answer_format.h"
#include "server/protocol/json_writer.h"

namespace tessera {
namespace {

class ChatFormat final : public AnswerFormat {
 public:
  ChatFormat(const Tokenizer& tokenizer, AnswerIdentity identity, AnswerOptions options)
      : AnswerFormat(tokenizer, std::move(identity), std::move(options),
                     {.whole = "chat.completion", .chunk = "chat.completion.chunk"}) {}

  void append_events(std::string& out, ChoicePiece& piece, const Usage* usage) override {
    if (piece.is_first) {
      begin_chunk(out, piece.index);
      out += R"("role":)";
      append_json_string(out, options_.role);
      out += R"(,"content":)";
      append_json_string(out, options_.echo_text);
      out += R"(},"logprobs":null,"finish_reason":null)";
      end_chunk(out, usage);
    }
    ChoiceDelta& delta = piece.delta;
    if (!options_.include_reasoning) delta.reasoning.clear();
    if (delta.empty() && piece.tokens.empty() && !piece.finished) return;
    begin_chunk(out, piece.index);
    const char* comma = "";
    if (!delta.reasoning.empty()) {
      out += R"("reasoning_content":)";
      append_json_string(out, delta.reasoning);
      comma = ",";
    }
    if (!delta.content.empty()) {
      out += comma;
      out += R"("content":)";
      append_json_string(out, delta.content);
      comma = ",";
    }
    if (!delta.tools.empty()) {
      out += comma;
      append_tool_deltas(out, delta.tools);
    }
    out += "}";
    append_logprobs(out, piece.tokens);
    append_finish(out, piece.finished);
    append_drafted(out, piece.drafted);
    end_chunk(out, usage);
  }

 private:
  void begin_chunk(std::string& out, std::int32_t index) const {
    begin_event(out);
    out += R"({"index":)";
    append_json_number(out, std::int64_t{index});
    out += R"(,"delta":{)";
  }

  void end_chunk(std::string& out, const Usage* usage) const {
    out += '}';
    end_event(out, usage);
  }

  static void append_tool_deltas(std::string& out, const std::vector<ToolDelta>& tools) {
    out += R"("tool_calls":[)";
    for (const ToolDelta& tool : tools) {
      if (&tool != &tools.front()) out += ',';
      out += R"({"index":)";
      append_json_number(out, std::int64_t{tool.index});
      if (!tool.id.empty()) {
        out += R"(,"id":)";
        append_json_string(out, tool.id);
        out += R"(,"type":"function","function":{"name":)";
        append_json_string(out, tool.name);
        out += R"(,"arguments":)";
      } else {
        out += R"(,"function":{"arguments":)";
      }
      append_json_string(out, tool.arguments);
      out += "}}";
    }
    out += ']';
  }

  void append_choice(std::string& out, const ChoicePiece& piece) override {
    const ChoiceDelta& message = piece.delta;
    out += R"({"index":)";
    append_json_number(out, std::int64_t{piece.index});
    out += R"(,"message":{"role":)";
    append_json_string(out, options_.role);
    out += R"(,"content":)";
    if (message.content.empty() && options_.echo_text.empty() && !message.tools.empty()) {
      out += "null";
    } else {
      append_json_string(out, options_.echo_text + message.content);
    }
    if (options_.include_reasoning && !message.reasoning.empty()) {
      out += R"(,"reasoning_content":)";
      append_json_string(out, message.reasoning);
    }
    out += R"(,"refusal":null)";
    if (!message.tools.empty()) {
      out += R"(,"tool_calls":[)";
      for (const ToolDelta& tool : message.tools) {
        if (&tool != &message.tools.front()) out += ',';
        out += R"({"id":)";
        append_json_string(out, tool.id);
        out += R"(,"type":"function","function":{"name":)";
        append_json_string(out, tool.name);
        out += R"(,"arguments":)";
        append_json_string(out, tool.arguments);
        out += "}}";
      }
      out += ']';
    }
    out += '}';
    append_logprobs(out, piece.tokens);
    append_finish(out, piece.finished);
    out += '}';
  }

  void append_after_usage(std::string& out, const std::vector<ChoicePiece>& choices) override {
    if (!options_.prompt_logprobs || choices.empty()) return;
    out += R"(,"prompt_logprobs":)";
    append_prompt_logprobs(out, tokenizer_, choices.front().prompt, choices.front().prompt_logprobs);
  }

  void append_logprobs(std::string& out, const std::vector<SampledToken>& tokens) const {
    if (!options_.logprobs) {
      out += R"(,"logprobs":null)";
      return;
    }
    out += R"(,"logprobs":{"content":[)";
    for (const SampledToken& token : tokens) {
      if (&token != &tokens.front()) out += ',';
      append_token(out, token.token, token.logprob);
      out += R"(,"top_logprobs":[)";
      for (const TokenLogprob& other : token.top) {
        if (&other != &token.top.front()) out += ',';
        append_token(out, other.token, other.logprob);
        out += '}';
      }
      out += "]}";
    }
    out += R"(],"refusal":null})";
  }

  // Without the closing brace.
  void append_token(std::string& out, std::int32_t id, float logprob) const {
    out += R"({"token":)";
    append_json_string(out, tokenizer_.decode(std::span(&id, 1), false));
    out += R"(,"logprob":)";
    append_json_number(out, logprob);
    out += R"(,"bytes":)";
    append_json_bytes(out, tokenizer_.bytes_of(id));
  }
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_format(const Tokenizer& tokenizer, AnswerIdentity identity,
                                               AnswerOptions options) {
  return std::make_unique<ChatFormat>(tokenizer, std::move(identity), std::move(options));
}

}  // namespace tessera

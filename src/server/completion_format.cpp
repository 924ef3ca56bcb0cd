// text_completion, whole and in chunks.
#include <set>

#include "server/answer_format.h"
#include "server/protocol/json_writer.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {
namespace {

// Where a choice's text stands: offsets count characters from the start of its text, over all chunks.
struct TextPosition {
  explicit TextPosition(const Tokenizer& tokenizer) : detokenizer(tokenizer) {}
  Detokenizer detokenizer;
  std::int64_t characters = 0;
};

class CompletionFormat final : public AnswerFormat {
 public:
  CompletionFormat(const Tokenizer& tokenizer, AnswerIdentity identity, AnswerOptions options)
      : AnswerFormat(tokenizer, std::move(identity), std::move(options),
                     {.whole = "text_completion", .chunk = "text_completion"}) {
    for (std::int32_t i = 0; i < options_.choices; ++i) positions_.emplace_back(tokenizer_);
  }

  void append_events(std::string& out, ChoicePiece& piece, const Usage* usage) override {
    if (piece.delta.empty() && piece.tokens.empty() && !piece.finished &&
        (!piece.is_first || piece.echo.empty())) {
      return;
    }
    begin_event(out);
    append_choice(out, piece);
    end_event(out, usage);
  }

 private:
  void append_choice(std::string& out, const ChoicePiece& piece) override {
    out += R"({"index":)";
    append_json_number(out, std::int64_t{piece.index});
    out += R"(,"text":)";
    append_json_string(out, piece.echo.empty() ? piece.delta.content
                                               : tokenizer_.decode(piece.echo, true) + piece.delta.content);
    append_logprobs(out, piece);
    append_finish(out, piece.finished);
    append_drafted(out, piece.drafted);
    if (options_.prompt_logprobs && piece.is_first) {
      out += R"(,"prompt_logprobs":)";
      append_prompt_logprobs(out, tokenizer_, piece.prompt, piece.prompt_logprobs);
    }
    out += '}';
  }

  // Four arrays of one length: one entry for each token of the echoed prompt and of the answer.
  void append_logprobs(std::string& out, const ChoicePiece& piece) {
    if (!options_.logprobs) {
      out += R"(,"logprobs":null)";
      return;
    }
    std::string tokens;
    std::string logprobs;
    std::string tops;
    std::string offsets;
    TextPosition& position = positions_[static_cast<std::size_t>(piece.index)];
    const auto append = [&](std::int32_t id, const SampledToken* known) {
      if (!tokens.empty()) {
        for (std::string* list : {&tokens, &logprobs, &tops, &offsets}) *list += ',';
      }
      append_json_number(offsets, position.characters);
      const std::string text = position.detokenizer.push(id);
      position.characters += static_cast<std::int64_t>(count_points(text));
      // Special tokens are shown in the list, but are not part of the text that offsets count in.
      append_json_string(tokens, tokenizer_.is_special(id) ? std::string(tokenizer_.bytes_of(id)) : text);
      if (known == nullptr) {
        logprobs += "null";
        tops += "null";
        return;
      }
      append_json_number(logprobs, known->logprob);
      append_top(tops, *known);
    };
    for (std::size_t i = 0; i < piece.echo.size(); ++i) {
      const bool has = i > 0 && i - 1 < piece.prompt_logprobs.size();
      append(piece.echo[i], has ? &piece.prompt_logprobs[i - 1] : nullptr);
    }
    for (const SampledToken& token : piece.tokens) append(token.token, &token);
    out += R"(,"logprobs":{"tokens":[)" + tokens + R"(],"token_logprobs":[)" + logprobs +
           R"(],"top_logprobs":[)" + tops + R"(],"text_offset":[)" + offsets + "]}";
  }

  // Keyed by text, as the protocol has it; of tokens with the same text the likelier one is kept.
  void append_top(std::string& out, const SampledToken& token) {
    std::set<std::string> seen;
    out += '{';
    const auto append = [&](std::int32_t id, float logprob) {
      std::string text = tokenizer_.decode(std::span(&id, 1), false);
      if (seen.contains(text)) return;
      if (!seen.empty()) out += ',';
      append_json_string(out, text);
      out += ':';
      append_json_number(out, logprob);
      seen.insert(std::move(text));
    };
    for (const TokenLogprob& other : token.top) append(other.token, other.logprob);
    append(token.token, token.logprob);
    out += '}';
  }

  std::vector<TextPosition> positions_;  // [choices]
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_format(const Tokenizer& tokenizer, AnswerIdentity identity,
                                                     AnswerOptions options) {
  return std::make_unique<CompletionFormat>(tokenizer, std::move(identity), std::move(options));
}

}  // namespace tessera

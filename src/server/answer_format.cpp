#include "server/answer_format.h"

#include <algorithm>

#include "server/protocol/json_writer.h"

namespace tessera {
namespace {

// Up to the first choice.
std::string head_of(std::string_view object, const AnswerIdentity& identity) {
  std::string out;
  out += R"({"id":)";
  append_json_string(out, identity.id);
  out += R"(,"object":")";
  out += object;
  out += R"(","created":)";
  append_json_number(out, identity.created);
  out += R"(,"model":)";
  append_json_string(out, identity.model);
  out += R"(,"system_fingerprint":)";
  append_json_string_or_null(out, identity.fingerprint);
  out += R"(,"choices":[)";
  return out;
}

}  // namespace

AnswerFormat::AnswerFormat(const Tokenizer& tokenizer, AnswerIdentity identity, AnswerOptions options,
                           Objects objects)
    : tokenizer_(tokenizer),
      options_(std::move(options)),
      whole_head_(head_of(objects.whole, identity)),
      chunk_head_("data: " + head_of(objects.chunk, identity)) {}

void AnswerFormat::append_usage_event(std::string& out, const Usage& usage) const {
  begin_event(out);
  end_event(out, &usage);
}

void AnswerFormat::end_event(std::string& out, const Usage* usage) const {
  out += ']';
  if (usage != nullptr) {
    out += R"(,"usage":)";
    append_usage(out, *usage);
  } else if (options_.usage_in_chunks) {
    out += R"(,"usage":null)";
  }
  out += "}\n\n";
}

std::string AnswerFormat::whole(std::vector<ChoicePiece>& choices, const Usage& usage) {
  std::string out = whole_head_;
  for (const ChoicePiece& piece : choices) {
    if (&piece != &choices.front()) out += ',';
    append_choice(out, piece);
  }
  out += R"(],"usage":)";
  append_usage(out, usage);
  append_after_usage(out, choices);
  out += '}';
  return out;
}

void append_usage(std::string& out, const Usage& usage) {
  out += R"({"prompt_tokens":)";
  append_json_number(out, usage.prompt_tokens);
  out += R"(,"total_tokens":)";
  append_json_number(out, usage.prompt_tokens + usage.completion_tokens);
  out += R"(,"completion_tokens":)";
  append_json_number(out, usage.completion_tokens);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_json_number(out, usage.cached_tokens);
  out += R"(},"completion_tokens_details":{"reasoning_tokens":)";
  append_json_number(out, usage.reasoning_tokens);
  out += "}}";
}

void append_finish(std::string& out, const std::optional<FinishedReason>& finished) {
  if (!finished) {
    out += R"(,"finish_reason":null)";
    return;
  }
  out += R"(,"finish_reason":")";
  out += finished->name;
  out += R"(","stop_reason":)";
  if (const auto* text = std::get_if<std::string>(&finished->stop)) {
    append_json_string(out, *text);
  } else if (const auto* token = std::get_if<std::int32_t>(&finished->stop)) {
    append_json_number(out, std::int64_t{*token});
  } else {
    out += "null";
  }
}

void append_drafted(std::string& out, const std::optional<bool>& drafted) {
  if (drafted) out += *drafted ? R"(,"drafted":true)" : R"(,"drafted":false)";
}

void append_prompt_logprobs(std::string& out, const Tokenizer& tokenizer,
                            std::span<const std::int32_t> prompt, std::span<const SampledToken> logprobs) {
  out += prompt.empty() ? "[" : "[null";
  for (const SampledToken& token : logprobs) {
    out += ",{";
    bool first = true;
    const auto append = [&](std::int32_t id, float logprob, std::int32_t rank) {
      if (!first) out += ',';
      first = false;
      out += '"';
      append_json_number(out, std::int64_t{id});
      out += R"(":{"logprob":)";
      append_json_number(out, logprob);
      out += R"(,"rank":)";
      append_json_number(out, std::int64_t{rank});
      out += R"(,"decoded_token":)";
      append_json_string(out, tokenizer.decode(std::span(&id, 1), false));
      out += '}';
    };
    append(token.token, token.logprob, token.rank);
    for (const TokenLogprob& other : token.top) {
      if (other.token != token.token) append(other.token, other.logprob, other.rank);
    }
    out += '}';
  }
  out += ']';
}

}  // namespace tessera

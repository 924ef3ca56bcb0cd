// The JSON of answers. One object a request; knows names, ids and shapes, and nothing of engines or sockets.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "backend/sampling.h"
#include "server/output/choice_output.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t reasoning_tokens = 0;
};
void append_usage(std::string& out, const Usage& usage);

// What is the same in all chunks of an answer.
struct AnswerIdentity {
  std::string id;
  std::string model;
  std::string fingerprint;
  std::int64_t created = 0;  // seconds since 1970
};

struct FinishedReason {
  std::string_view name;  // "stop", "length", "tool_calls", "abort", "error"
  std::variant<std::monostate, std::string, std::int32_t>
      stop;  // the stop string or stop token that ended it
};

// A piece of one choice, or with the whole answer at once all of it.
struct ChoicePiece {
  std::int32_t index = 0;
  ChoiceDelta delta = {};
  std::vector<SampledToken> tokens = {};  // with logprobs asked for: the tokens since the last piece
  std::optional<FinishedReason> finished = {};
  std::optional<bool> drafted = {};  // with drafts reported: whether its one token was guessed and accepted

  // Of the first piece only, as far as asked for.
  bool is_first = false;
  std::span<const std::int32_t> echo = {};             // the prompt, to be repeated
  std::span<const SampledToken> prompt_logprobs = {};  // of echo, from its second token on
  std::span<const std::int32_t> prompt = {};           // with prompt_logprobs reported in their own field
};

struct AnswerOptions {
  bool logprobs = false;           // asked for
  bool usage_in_chunks = false;    // "usage": null where there is none yet
  bool include_reasoning = true;   // chat
  bool prompt_logprobs = false;    // in a field of their own
  std::string echo_text = {};      // chat: put before the content
  std::string role = "assistant";  // chat
  std::int32_t choices = 1;
};

// What the two shapes share; each writes its own choices.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // One or more events of a stream, "data: {…}\n\n" each. `usage` may be null.
  virtual void append_events(std::string& out, ChoicePiece& piece, const Usage* usage) = 0;
  // The last event, with no choices.
  void append_usage_event(std::string& out, const Usage& usage) const;
  std::string whole(std::vector<ChoicePiece>& choices, const Usage& usage);

 protected:
  struct Objects {
    std::string_view whole, chunk;  // "object" of an answer and of an event
  };
  // Borrows the tokenizer.
  AnswerFormat(const Tokenizer& tokenizer, AnswerIdentity identity, AnswerOptions options, Objects objects);

  virtual void append_choice(std::string& out, const ChoicePiece& piece) = 0;  // of a whole answer
  virtual void append_after_usage(std::string&, const std::vector<ChoicePiece>&) {}
  void begin_event(std::string& out) const { out += chunk_head_; }  // up to "choices":[
  void end_event(std::string& out, const Usage* usage) const;       // from ] on

  const Tokenizer& tokenizer_;
  AnswerOptions options_;

 private:
  std::string whole_head_;
  std::string chunk_head_;
};

// Borrow the tokenizer.
std::unique_ptr<AnswerFormat> make_chat_format(const Tokenizer& tokenizer, AnswerIdentity identity,
                                               AnswerOptions options);
std::unique_ptr<AnswerFormat> make_completion_format(const Tokenizer& tokenizer, AnswerIdentity identity,
                                                     AnswerOptions options);

// Shared by both shapes.
void append_finish(std::string& out, const std::optional<FinishedReason>& finished);
void append_drafted(std::string& out, const std::optional<bool>& drafted);
// vLLM's shape: null, then one object a token, {"ID": {"logprob", "rank", "decoded_token"}}.
void append_prompt_logprobs(std::string& out, const Tokenizer& tokenizer,
                            std::span<const std::int32_t> prompt, std::span<const SampledToken> logprobs);

}  // namespace tessera

// From the tokens of one choice to the fields of its message: splitter, detokenisers, stop strings, tool-call
// ids. What it hands out, concatenated, is the same for every bundling of the tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/output/stop_matcher.h"
#include "server/output/stream_splitter.h"
#include "tokenizer/detokenizer.h"

namespace tessera {

struct ToolDelta {
  std::int32_t index = 0;  // of the call in this message
  std::string id = {};     // set where the call opens, with the name
  std::string name = {};
  std::string arguments = {};
  friend bool operator==(const ToolDelta&, const ToolDelta&) = default;
};

// What is new since the last one.
struct ChoiceDelta {
  std::string reasoning;
  std::string content;
  std::vector<ToolDelta> tools;
  // All reasoning so far turned out to be the content, which is repeated there: the model skipped thinking,
  // and nothing in its answer said so before the end. A stream cannot take its reasoning deltas back.
  bool reasoning_was_content = false;

  bool empty() const { return reasoning.empty() && content.empty() && tools.empty(); }
};

struct ChoiceOptions {
  SplitterOptions splitter;
  std::vector<std::string> stop;  // matched in the content only: thoughts may well mention them (vllm#14170)
  bool include_stop = false;
  bool skip_special = true;
  std::int32_t min_tokens = 0;          // stop strings are not looked for earlier
  std::vector<std::string> tool_names;  // as declared; settles how to read ids with dots in them
  std::int32_t first_tool = 0;          // IDX of the first call, counted over the conversation
};

class ChoiceOutput {
 public:
  // Borrows the tokenizer.
  ChoiceOutput(const Tokenizer& tokenizer, const ChoiceOptions& options);

  // Not to be given the token that ended the request. Ignored after a stop string was found.
  void push(std::int32_t token, ChoiceDelta& delta);
  // `complete`: the model ended its answer, rather than a limit or an error.
  void finish(bool complete, ChoiceDelta& delta);

  const std::optional<std::string>& stopped_by() const { return stop_.matched(); }
  std::int32_t calls() const { return calls_; }
  std::int32_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  enum class Channel : std::uint8_t { kNone, kReasoning, kContent, kCallId, kArguments };

  void handle(const SplitEvent& event, ChoiceDelta& delta);
  void enter(Channel channel, ChoiceDelta& delta);
  void text(Channel channel, std::string piece, ChoiceDelta& delta);
  void open_call(ChoiceDelta& delta);
  ToolDelta& current_call(ChoiceDelta& delta);

  StreamSplitter splitter_;
  StopMatcher stop_;
  std::vector<std::string> tool_names_;
  Detokenizer plain_;      // for reasoning and content, one after the other
  Detokenizer structure_;  // for ids and arguments
  Channel channel_ = Channel::kNone;
  std::string call_id_;     // text of the id that is being read
  std::string assumed_;     // reasoning that no marker has confirmed yet
  bool call_open_ = false;  // the current call was announced
  std::int32_t calls_ = 0;
  std::int32_t next_tool_;
  std::int32_t min_tokens_;
  std::int32_t tokens_ = 0;
  std::int32_t reasoning_tokens_ = 0;
};

// "functions.get_weather:3" -> "get_weather"; the declared names decide where dots leave a choice.
std::string tool_name_of(std::string_view id, const std::vector<std::string>& declared);

}  // namespace tessera

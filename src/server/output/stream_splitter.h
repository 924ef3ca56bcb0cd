// Splits an answer's tokens into reasoning, content and tool calls: a state machine on token ids, one token
// at a time, so the result cannot depend on how tokens were bundled into steps. It sees no text and buffers
// nothing, so nothing in it has a length limit.
//
//   REASONING --</think>--> CONTENT --section begin--> SECTION --call begin--> CALL_ID --argument begin-->
//   ARGUMENTS
//                              ^----section end-----------'  ^---------------call
//                              end------------------------'
//
// Models leave out closers and openers; each missing one is implied by the next marker: a section ends
// reasoning, a call opens a section, a new call or the section's end closes a call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/output/markers.h"

namespace tessera {

enum class MarkerMode : std::uint8_t {
  kPass,     // no parser is configured: markers are tokens like others
  kSwallow,  // a parser is configured, but this request does not want its result: markers vanish, text is
             // content
  kParse,
};

struct SplitterOptions {
  MarkerIds ids;
  MarkerMode thinking = MarkerMode::kPass;
  MarkerMode tools = MarkerMode::kPass;
  // Where the answer starts, with thinking kParse: the prompt says (split_start in chat_start.h).
  enum Start {
    kInContent,
    kInReasoning,
    kUndecided
  } start = kInContent;  // kUndecided: `<think>` first, or content
};

struct SplitEvent {
  enum Kind : std::uint8_t {
    kReasoning,  // `token` is text of the reasoning
    kContent,
    kCallBegin,
    kCallId,  // `token` is text of the call's id
    kArgumentsBegin,
    kArguments,  // `token` is text of the call's arguments
    kCallEnd,
  };
  Kind kind;
  std::int32_t token = -1;
  friend bool operator==(const SplitEvent&, const SplitEvent&) = default;
};

class StreamSplitter {
 public:
  explicit StreamSplitter(const SplitterOptions& options);

  // Valid until the next call.
  std::span<const SplitEvent> push(std::int32_t token);
  // The end of the answer closes an open call.
  std::span<const SplitEvent> finish();

  bool in_reasoning() const { return state_ == State::kReasoning; }
  // The answer started as reasoning because the prompt said so, and no marker has confirmed it.
  bool reasoning_is_assumed() const { return in_reasoning() && !saw_marker_; }

 private:
  enum class State : std::uint8_t { kUndecided, kReasoning, kContent, kSection, kCallId, kArguments };

  bool take_thinking_marker(std::int32_t token);
  bool take_tool_marker(std::int32_t token);
  void emit(SplitEvent::Kind kind, std::int32_t token = -1) { events_.push_back({kind, token}); }
  void close_call();

  SplitterOptions options_;
  State state_;
  bool saw_marker_ = false;
  std::vector<SplitEvent> events_;
};

}  // namespace tessera

#include "server/output/stream_splitter.h"

namespace tessera {

StreamSplitter::StreamSplitter(const SplitterOptions& options) : options_(options), state_(State::kContent) {
  if (!options_.ids.has_thinking()) options_.thinking = MarkerMode::kPass;
  if (!options_.ids.has_tools()) options_.tools = MarkerMode::kPass;
  if (options_.thinking == MarkerMode::kParse) {
    if (options_.start == SplitterOptions::kInReasoning) state_ = State::kReasoning;
    if (options_.start == SplitterOptions::kUndecided) state_ = State::kUndecided;
  }
}

std::span<const SplitEvent> StreamSplitter::push(std::int32_t token) {
  events_.clear();
  if (take_thinking_marker(token) || take_tool_marker(token)) return events_;
  switch (state_) {
    case State::kUndecided:
      state_ = State::kContent;
      [[fallthrough]];
    case State::kContent:
      emit(SplitEvent::kContent, token);
      break;
    case State::kReasoning:
      emit(SplitEvent::kReasoning, token);
      break;
    case State::kSection:
      break;  // blanks between calls
    case State::kCallId:
      emit(SplitEvent::kCallId, token);
      break;
    case State::kArguments:
      emit(SplitEvent::kArguments, token);
      break;
  }
  return events_;
}

bool StreamSplitter::take_thinking_marker(std::int32_t token) {
  if (token != options_.ids.think_begin && token != options_.ids.think_end) return false;
  if (options_.thinking == MarkerMode::kPass) return false;
  // Arguments are data: a file about this very syntax may be written through a tool.
  if (state_ == State::kArguments || state_ == State::kCallId) return false;
  saw_marker_ = true;
  if (options_.thinking == MarkerMode::kSwallow) return true;
  if (token == options_.ids.think_begin) {
    if (state_ == State::kUndecided) state_ = State::kReasoning;
  } else if (state_ == State::kReasoning || state_ == State::kUndecided) {
    state_ = State::kContent;
  }
  return true;
}

bool StreamSplitter::take_tool_marker(std::int32_t token) {
  const MarkerIds& ids = options_.ids;
  const bool is_marker = token == ids.section_begin || token == ids.section_end || token == ids.call_begin ||
                         token == ids.argument_begin || token == ids.call_end;
  if (!is_marker || token < 0 || options_.tools == MarkerMode::kPass) return false;
  saw_marker_ = true;
  if (options_.tools == MarkerMode::kSwallow) {
    state_ = State::kContent;
    return true;
  }
  if (token == ids.section_begin) {
    if (state_ != State::kArguments && state_ != State::kCallId) state_ = State::kSection;
  } else if (token == ids.section_end) {
    close_call();
    if (state_ != State::kReasoning) state_ = State::kContent;
  } else if (token == ids.call_begin) {
    close_call();
    emit(SplitEvent::kCallBegin);
    state_ = State::kCallId;
  } else if (token == ids.argument_begin) {
    if (state_ == State::kCallId) {
      emit(SplitEvent::kArgumentsBegin);
      state_ = State::kArguments;
    }
  } else {
    close_call();
  }
  return true;
}

void StreamSplitter::close_call() {
  if (state_ != State::kCallId && state_ != State::kArguments) return;
  emit(SplitEvent::kCallEnd);
  state_ = State::kSection;
}

std::span<const SplitEvent> StreamSplitter::finish() {
  events_.clear();
  close_call();
  return events_;
}

}  // namespace tessera

#include "server/output/choice_output.h"

#include <algorithm>
#include <charconv>

namespace tessera {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The IDX at the end of an id of the form functions.NAME:IDX.
std::optional<std::int32_t> index_of(std::string_view id) {
  const std::size_t colon = id.rfind(':');
  if (!id.starts_with("functions.") || colon == std::string_view::npos) return std::nullopt;
  std::int32_t index = 0;
  const auto parsed = std::from_chars(id.data() + colon + 1, id.data() + id.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != id.data() + id.size() || index < 0 || index > 1'000'000'000) {
    return std::nullopt;
  }
  return index;
}

}  // namespace

std::string tool_name_of(std::string_view id, const std::vector<std::string>& declared) {
  constexpr std::string_view kPrefix = "functions.";
  if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
  const std::size_t colon = id.rfind(':');
  const bool has_index = colon != std::string_view::npos && colon + 1 < id.size() &&
                         std::all_of(id.begin() + static_cast<std::ptrdiff_t>(colon) + 1, id.end(),
                                     [](char c) { return c >= '0' && c <= '9'; });
  if (has_index) id = id.substr(0, colon);
  const std::string whole(id);
  if (std::ranges::find(declared, whole) != declared.end()) return whole;
  const std::string last(id.substr(id.rfind('.') + 1));  // npos + 1 = 0: no dot
  if (std::ranges::find(declared, last) != declared.end()) return last;
  return whole;
}

ChoiceOutput::ChoiceOutput(const Tokenizer& tokenizer, const ChoiceOptions& options)
    : splitter_(options.splitter),
      stop_(options.stop, options.include_stop),
      tool_names_(options.tool_names),
      plain_(tokenizer, options.skip_special),
      structure_(tokenizer),
      next_tool_(options.first_tool),
      min_tokens_(options.min_tokens) {}

void ChoiceOutput::push(std::int32_t token, ChoiceDelta& delta) {
  if (stop_.matched()) return;
  ++tokens_;
  for (const SplitEvent& event : splitter_.push(token)) {
    handle(event, delta);
    if (event.kind == SplitEvent::kReasoning) ++reasoning_tokens_;
  }
  if (!splitter_.reasoning_is_assumed()) assumed_.clear();
}

void ChoiceOutput::handle(const SplitEvent& event, ChoiceDelta& delta) {
  switch (event.kind) {
    case SplitEvent::kReasoning:
      enter(Channel::kReasoning, delta);
      text(channel_, plain_.push(event.token), delta);
      break;
    case SplitEvent::kContent:
      enter(Channel::kContent, delta);
      text(channel_, plain_.push(event.token), delta);
      break;
    case SplitEvent::kCallBegin:
      enter(Channel::kCallId, delta);
      call_id_.clear();
      call_open_ = false;
      break;
    case SplitEvent::kCallId:
      text(Channel::kCallId, structure_.push(event.token), delta);
      break;
    case SplitEvent::kArgumentsBegin:
      enter(Channel::kArguments, delta);
      open_call(delta);
      break;
    case SplitEvent::kArguments:
      text(Channel::kArguments, structure_.push(event.token), delta);
      break;
    case SplitEvent::kCallEnd:
      enter(Channel::kNone, delta);
      // A call without arguments, or cut off inside its id; without a name there is nothing to call.
      if (!call_open_ && !trimmed(call_id_).empty()) open_call(delta);
      call_open_ = false;
      call_id_.clear();
      break;
  }
}

// Leaving a channel settles a character that was not finished in it.
void ChoiceOutput::enter(Channel channel, ChoiceDelta& delta) {
  if (channel_ == channel) return;
  const bool was_plain = channel_ == Channel::kReasoning || channel_ == Channel::kContent;
  if (channel_ != Channel::kNone) text(channel_, was_plain ? plain_.flush() : structure_.flush(), delta);
  channel_ = channel;
}

void ChoiceOutput::text(Channel channel, std::string piece, ChoiceDelta& delta) {
  if (piece.empty()) return;
  switch (channel) {
    case Channel::kNone:
      break;
    case Channel::kReasoning:
      if (splitter_.reasoning_is_assumed()) assumed_ += piece;
      delta.reasoning += piece;
      break;
    case Channel::kContent:
      delta.content += tokens_ > min_tokens_ ? stop_.push(piece) : piece;
      break;
    case Channel::kCallId:
      call_id_ += piece;
      break;
    case Channel::kArguments:
      current_call(delta).arguments += piece;
      break;
  }
}

void ChoiceOutput::open_call(ChoiceDelta& delta) {
  const std::string_view id = trimmed(call_id_);
  std::string name = tool_name_of(id, tool_names_);
  // The model's own numbering is kept where it continues the conversation's; an index that was used before
  // would make two calls one (vllm#46344).
  const auto index = index_of(id);
  std::string final_id(id);
  if (index && *index >= next_tool_) {
    next_tool_ = *index + 1;
  } else {
    final_id = "functions." + name + ":" + std::to_string(next_tool_++);
  }
  delta.tools.push_back({.index = calls_++, .id = std::move(final_id), .name = std::move(name)});
  call_open_ = true;
}

ToolDelta& ChoiceOutput::current_call(ChoiceDelta& delta) {
  const std::int32_t index = calls_ - 1;
  if (delta.tools.empty() || delta.tools.back().index != index) delta.tools.push_back({.index = index});
  return delta.tools.back();
}

void ChoiceOutput::finish(bool complete, ChoiceDelta& delta) {
  if (stop_.matched()) return;
  const bool assumed = splitter_.reasoning_is_assumed();
  for (const SplitEvent& event : splitter_.finish()) handle(event, delta);
  enter(Channel::kNone, delta);
  if (assumed && complete && !assumed_.empty()) {
    delta.reasoning_was_content = true;
    delta.content += stop_.push(assumed_);
    reasoning_tokens_ = 0;
  }
  if (!stop_.matched()) delta.content += stop_.flush();
}

}  // namespace tessera

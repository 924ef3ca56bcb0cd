#include "engine/slot_state.h"

#include <algorithm>

namespace tessera {

void SlotState::start(const SequenceStart& start, std::int32_t max_model_len) {
  active_ = true;
  sampling_ = start.sampling;
  seed_ = start.seed;
  end_tokens_ = start.end_tokens;
  has_penalties_ = sampling_.repetition_penalty != 1.0F || sampling_.frequency_penalty != 0.0F ||
                   sampling_.presence_penalty != 0.0F;
  generated_ = 0;
  last_token_ = -1;
  prompt_.clear();
  out_counts_.clear();
  if (sampling_.repetition_penalty != 1.0F) prompt_ = start.prompt;
  if (has_penalties_) {
    const auto room = static_cast<std::size_t>(max_model_len) -
                      std::min(start.prompt.size(), static_cast<std::size_t>(max_model_len));
    out_counts_.reserve(std::min(room, static_cast<std::size_t>(sampling_.max_tokens)) + start.output.size());
  }
  for (const std::int32_t token : start.output) append(token);
}

void SlotState::count(std::int32_t token) {
  const auto at =
      std::ranges::lower_bound(out_counts_, token, {}, &std::pair<std::int32_t, std::int32_t>::first);
  if (at != out_counts_.end() && at->first == token) {
    ++at->second;
  } else {
    out_counts_.insert(at, {token, 1});
  }
}

void SlotState::append(std::int32_t token) {
  ++generated_;
  last_token_ = token;
  if (has_penalties_) count(token);
}

SamplingRow SlotState::next_row(std::span<const std::uint64_t> allowed) const {
  SamplingRow row;
  row.temperature = sampling_.temperature;
  row.top_k = std::max(sampling_.top_k, 0);
  row.top_p = sampling_.top_p;
  row.min_p = sampling_.min_p;
  row.repetition_penalty = sampling_.repetition_penalty;
  row.frequency_penalty = sampling_.frequency_penalty;
  row.presence_penalty = sampling_.presence_penalty;
  row.seed = seed_;
  row.draw = static_cast<std::uint64_t>(generated_);
  row.logprobs = sampling_.logprobs.value_or(-1);
  row.logit_bias = sampling_.logit_bias;
  if (generated_ < sampling_.min_tokens) row.banned = end_tokens_;
  row.allowed = allowed;
  row.prompt_tokens = prompt_;
  row.out_counts = out_counts_;
  return row;
}

}  // namespace tessera

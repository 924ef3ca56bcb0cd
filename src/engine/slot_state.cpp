#include "engine/slot_state.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {

void SlotState::start(const SequenceStart& start, std::int32_t max_model_len, std::int32_t most_drafts) {
  active_ = true;
  sampling_ = start.sampling;
  seed_ = start.seed;
  end_tokens_ = start.end_tokens;
  has_penalties_ = sampling_.repetition_penalty != 1.0F || sampling_.frequency_penalty != 0.0F ||
                   sampling_.presence_penalty != 0.0F;
  const std::size_t known = start.prompt.size() + start.output.size();
  const auto to_come = std::min(static_cast<std::size_t>(sampling_.max_tokens),
                                static_cast<std::size_t>(max_model_len) -
                                    std::min(start.prompt.size(), static_cast<std::size_t>(max_model_len)));
  tokens_.clear();
  // A step may gain more than max_tokens leave; the scheduler drops the rest.
  tokens_.reserve(known + to_come + static_cast<std::size_t>(most_drafts) + 1);
  tokens_ = start.prompt;
  prompt_size_ = start.prompt.size();
  proposal_.tokens.clear();
  proposal_.tokens.reserve(static_cast<std::size_t>(most_drafts));
  proposal_.probs.clear();
  out_counts_.clear();
  if (has_penalties_)
    out_counts_.reserve(to_come + start.output.size() + static_cast<std::size_t>(most_drafts) + 1);
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
  tokens_.push_back(token);
  if (has_penalties_) count(token);
}

bool SlotState::is_plainly_greedy() const {
  return sampling_.temperature == 0 && !has_penalties_ && sampling_.logit_bias.empty() &&
         !sampling_.logprobs && generated() >= sampling_.min_tokens;
}

DraftedSequence SlotState::next_rows(std::int32_t drafts, std::span<const std::int32_t> draft_tokens) const {
  const auto k = static_cast<std::size_t>(drafts);
  DraftedSequence sequence;
  SamplingRow& row = sequence.next;
  row.temperature = sampling_.temperature;
  row.top_k = std::max(sampling_.top_k, 0);
  row.top_p = sampling_.top_p;
  row.min_p = sampling_.min_p;
  row.repetition_penalty = sampling_.repetition_penalty;
  row.frequency_penalty = sampling_.frequency_penalty;
  row.presence_penalty = sampling_.presence_penalty;
  row.seed = seed_;
  row.draw = next_draw();
  row.logprobs = sampling_.logprobs.value_or(-1);
  row.logit_bias = sampling_.logit_bias;
  if (sampling_.repetition_penalty != 1.0F) row.prompt_tokens = tokens().first(prompt_size_);
  row.out_counts = out_counts_;
  TS_CHECK(k <= proposal_.tokens.size(), k, proposal_.tokens.size());
  sequence.drafts = std::span(proposal_.tokens).first(k);
  sequence.min_tokens_left = std::max(sampling_.min_tokens - generated(), 0);
  sequence.end_tokens = end_tokens_;
  // A request's own seed promises the tokens that it gives without speculation: its drafts only guess them.
  if (k > 0 && !proposal_.probs.empty() && !sampling_.seed) {
    const std::size_t entries = proposal_.probs.size() / proposal_.tokens.size();
    sequence.probs = std::span(proposal_.probs).first(k * entries);
    sequence.token_ids = draft_tokens;
  }
  return sequence;
}

}  // namespace tessera

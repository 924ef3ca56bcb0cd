#include "engine/step_sampler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tessera {

StepSampler::StepSampler(Backend& backend, Model& model, const Limits& limits)
    : backend_(backend), model_(model), always_logits_(limits.always_logits) {
  const auto rows = static_cast<std::size_t>(std::min(limits.seqs * (1 + limits.drafts), limits.tokens));
  rows_.reserve(rows);
  sampled_.resize(rows);
  scored_rows_.reserve(static_cast<std::size_t>(limits.tokens));
  targets_.reserve(kLogitRows);
  allowed_.reserve(static_cast<std::size_t>(1 + limits.drafts));
  row_tokens_.resize(kLogitRows);
  best_.resize(kLogitRows);
  device_rows_ = backend.allocate(kLogitRows * sizeof(std::int32_t));
  device_best_ = backend.allocate(kLogitRows * sizeof(std::int32_t));
}

void StepSampler::set_tap(LogitsTap tap) {
  TS_CHECK(always_logits_);
  tap_ = std::move(tap);
}

void StepSampler::sample(const StepPlan& plan, const StepRows& rows, const Tensor& hidden,
                         std::span<const std::int32_t> draft_tokens, std::span<SlotState> slots,
                         StepResult& result) {
  list_rows(plan, rows, draft_tokens, slots);
  // The same on every rank, since either way is an exchange between them.
  if (is_greedy_ && !always_logits_) {
    choose_greedily(hidden);
  } else {
    sample_logits(rows, hidden);
  }
  hand_out(plan, rows, slots, result);
  score_prompts(rows, hidden, result);
}

void StepSampler::list_rows(const StepPlan& plan, const StepRows& step,
                            std::span<const std::int32_t> draft_tokens, std::span<SlotState> slots) {
  rows_.clear();
  verification_.clear();
  is_greedy_ = true;
  has_drafts_ = false;
  for (std::size_t w = 0; w < step.work.size(); ++w) {
    const SequenceWork& work = step.work[w];
    if (!work.samples) continue;
    const SlotState& slot = slots[static_cast<std::size_t>(work.slot)];
    const std::int32_t drafts = work.is_decode ? work.count - 1 : 0;
    for (std::int32_t i = work.count - 1 - drafts; i < work.count; ++i)
      rows_.push_back({.token = work.first_token + i, .work = static_cast<std::int32_t>(w)});
    DraftedSequence sequence = slot.next_rows(drafts, draft_tokens);
    if (work.allowed_mask >= 0) {
      const auto first = plan.allowed_masks.begin() + work.allowed_mask;
      allowed_.assign(first, first + 1 + drafts);
      sequence.allowed = allowed_;
    }
    verification_.add(sequence);
    is_greedy_ = is_greedy_ && slot.is_plainly_greedy() && sequence.allowed.empty();
    has_drafts_ = has_drafts_ || drafts > 0;
  }
  TS_CHECK(rows_.size() <= sampled_.size(), rows_.size(), sampled_.size());
}

const std::int32_t* StepSampler::on_device(std::span<const Row> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) row_tokens_[i] = rows[i].token;
  backend_.copy_to_device(device_rows_.get(), row_tokens_.data(), rows.size() * sizeof(std::int32_t));
  return static_cast<const std::int32_t*>(device_rows_.get());
}

Tensor StepSampler::logits_of(const StepRows& step, const Tensor& hidden, std::span<const Row> rows) {
  const Tensor logits = model_.logits(hidden, on_device(rows), static_cast<std::int64_t>(rows.size()));
  if (!tap_) return logits;
  std::vector<float> host(static_cast<std::size_t>(logits.cols));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    backend_.copy_to_host(host.data(), logits.row_range(static_cast<std::int64_t>(i), 1).data,
                          host.size() * sizeof(float));
    backend_.synchronise();
    tap_(step.work[static_cast<std::size_t>(rows[i].work)].slot,
         step.positions[static_cast<std::size_t>(rows[i].token)], host);
  }
  return logits;
}

void StepSampler::choose_greedily(const Tensor& hidden) {
  auto* best = static_cast<std::int32_t*>(device_best_.get());
  for (std::size_t first = 0; first < rows_.size(); first += kLogitRows) {
    const std::size_t count = std::min<std::size_t>(kLogitRows, rows_.size() - first);
    const std::int32_t* rows = on_device(std::span(rows_).subspan(first, count));
    model_.argmax(hidden, rows, static_cast<std::int64_t>(count), best);
    backend_.copy_to_host(best_.data(), best, count * sizeof(std::int32_t));
    backend_.synchronise();
    for (std::size_t i = 0; i < count; ++i) {
      SampledToken& token = sampled_[first + i];
      token.token = best_[i];
      token.logprob = 0;
      token.rank = 0;
      token.invalid = best_[i] < 0;
      token.top.clear();
    }
  }
}

void StepSampler::sample_logits(const StepRows& step, const Tensor& hidden) {
  for (std::size_t first = 0; first < rows_.size(); first += kLogitRows) {
    const std::size_t count = std::min<std::size_t>(kLogitRows, rows_.size() - first);
    const Tensor logits = logits_of(step, hidden, std::span(rows_).subspan(first, count));
    const auto rows = verification_.rows().subspan(first, count);
    const auto sampled = std::span(sampled_).subspan(first, count);
    if (has_drafts_) {
      backend_.verify(logits, rows, verification_.drafts().subspan(first, count), sampled);
    } else {
      backend_.sample(logits, rows, sampled);
    }
  }
}

// One entry for each sequence that the plan samples, also for those that have ended since.
void StepSampler::hand_out(const StepPlan& plan, const StepRows& step, std::span<SlotState> slots,
                           StepResult& result) {
  std::size_t first = 0;
  for (std::size_t w = 0; w < plan.work.size(); ++w) {
    if (!plan.work[w].samples) continue;
    const SequenceWork& work = step.work[w];
    if (!work.samples) {
      result.gained.push_back(0);
      result.rows.push_back(0);
      continue;
    }
    SlotState& slot = slots[static_cast<std::size_t>(work.slot)];
    const auto rows = static_cast<std::size_t>(work.is_decode ? work.count : 1);
    const auto results = std::span(sampled_).subspan(first, rows);
    const auto drafts = std::span<const std::int32_t>(slot.proposal().tokens).first(rows - 1);
    const std::int32_t gained = accepted_drafts(drafts, results) + 1;
    for (SampledToken& token : results.first(static_cast<std::size_t>(gained))) {
      if (!token.invalid) slot.append(token.token);
      result.sampled.push_back(std::move(token));
    }
    result.gained.push_back(gained);
    result.rows.push_back(static_cast<std::int32_t>(rows));
    first += rows;
  }
}

// Log-probabilities of prompt tokens, in runs of rows that want the same number of alternatives.
void StepSampler::score_prompts(const StepRows& step, const Tensor& hidden, StepResult& result) {
  scored_rows_.clear();
  for (std::size_t w = 0; w < step.work.size(); ++w) {
    const SequenceWork& work = step.work[w];
    if (work.prompt_logprobs < 0) continue;
    for (std::int32_t t = work.first_token; t < work.first_token + work.count; ++t) {
      if (step.next_tokens[static_cast<std::size_t>(t)] >= 0)
        scored_rows_.push_back({.token = t, .work = static_cast<std::int32_t>(w)});
    }
  }
  const auto wanted = [&](const Row& row) {
    return step.work[static_cast<std::size_t>(row.work)].prompt_logprobs;
  };
  for (std::size_t first = 0; first < scored_rows_.size();) {
    std::size_t end = first;
    targets_.clear();
    while (end < scored_rows_.size() && end - first < kLogitRows &&
           wanted(scored_rows_[end]) == wanted(scored_rows_[first])) {
      targets_.push_back(step.next_tokens[static_cast<std::size_t>(scored_rows_[end++].token)]);
    }
    const std::size_t before = result.prompt_logprobs.size();
    result.prompt_logprobs.resize(before + targets_.size());
    const Tensor logits = logits_of(step, hidden, std::span(scored_rows_).subspan(first, end - first));
    backend_.logprobs(logits, targets_, wanted(scored_rows_[first]),
                      std::span(result.prompt_logprobs).subspan(before));
    first = end;
  }
}

}  // namespace tessera

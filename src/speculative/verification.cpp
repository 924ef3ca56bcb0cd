#include "speculative/verification.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {
namespace {

bool has_penalties(const SamplingRow& row) {
  return row.repetition_penalty != 1.0F || row.frequency_penalty != 0.0F || row.presence_penalty != 0.0F;
}

}  // namespace

void VerificationRows::clear() {
  rows_.clear();
  drafts_.clear();
  used_counts_ = 0;
}

VerificationRows::Counts& VerificationRows::next_counts() {
  if (used_counts_ == counts_.size()) counts_.emplace_back();
  return counts_[used_counts_++];
}

void VerificationRows::add(const DraftedSequence& sequence) {
  const std::size_t k = sequence.drafts.size();
  TS_CHECK(sequence.allowed.empty() || sequence.allowed.size() == k + 1, sequence.allowed.size(), k);
  TS_CHECK(k == 0 || sequence.probs.size() % k == 0, sequence.probs.size(), k);
  const std::size_t entries = k == 0 ? 0 : sequence.probs.size() / k;
  std::span<const std::pair<std::int32_t, std::int32_t>> counts = sequence.next.out_counts;
  for (std::size_t i = 0; i <= k; ++i) {
    SamplingRow row = sequence.next;
    row.draw += i;
    row.banned = static_cast<std::int64_t>(i) < sequence.min_tokens_left ? sequence.end_tokens
                                                                         : std::span<const std::int32_t>();
    if (!sequence.allowed.empty()) row.allowed = sequence.allowed[i];
    if (i > 0 && has_penalties(row)) {
      const std::int32_t token = sequence.drafts[i - 1];
      Counts& own = next_counts();  // moves no earlier one's elements
      own.assign(counts.begin(), counts.end());
      const auto at = std::ranges::find(own, token, &std::pair<std::int32_t, std::int32_t>::first);
      if (at != own.end()) {
        ++at->second;
      } else {
        own.emplace_back(token, 1);
      }
      counts = own;
    }
    row.out_counts = counts;
    rows_.push_back(row);

    DraftDraw draft;
    if (i < k) {
      draft.token = sequence.drafts[i];
      if (entries > 0) {
        draft.probs = sequence.probs.subspan(i * entries, entries);
        draft.ids = sequence.token_ids;
        std::size_t entry = static_cast<std::size_t>(draft.token);
        if (!draft.ids.empty()) {
          entry =
              static_cast<std::size_t>(std::ranges::lower_bound(draft.ids, draft.token) - draft.ids.begin());
        }
        TS_CHECK(entry < entries, entry, entries, draft.token);
        draft.prob = draft.probs[entry];
      }
    }
    drafts_.push_back(draft);
  }
}

std::int32_t accepted_drafts(std::span<const std::int32_t> drafts, std::span<const SampledToken> results) {
  TS_CHECK(results.size() == drafts.size() + 1, results.size(), drafts.size());
  std::size_t accepted = 0;
  while (accepted < drafts.size() && !results[accepted].invalid &&
         results[accepted].token == drafts[accepted]) {
    ++accepted;
  }
  return static_cast<std::int32_t>(accepted);
}

}  // namespace tessera

#include "speculative/drafting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/uniform_draw.h"
#include "base/check.h"
#include "speculative/draft_draw.h"

namespace tessera {

// By insertion: the list is short and nearly sorted, and std::stable_sort would allocate.
void sort_by_drafts(std::vector<Drafting>& drafting) {
  for (std::size_t i = 1; i < drafting.size(); ++i) {
    for (std::size_t j = i; j > 0 && drafting[j - 1].drafts < drafting[j].drafts; --j) {
      std::swap(drafting[j - 1], drafting[j]);
    }
  }
}

std::int32_t still_drafting(std::span<const Drafting> drafting, std::int32_t drafts) {
  return static_cast<std::int32_t>(
      std::ranges::count_if(drafting, [&](const Drafting& d) { return d.drafts > drafts; }));
}

std::int32_t rows_within(const ProposerWork& work, std::int32_t block_size, std::int64_t positions) {
  const std::int64_t rows = static_cast<std::int64_t>(work.block_table.size()) * block_size;
  return static_cast<std::int32_t>(std::min(rows, positions));
}

TokenChoice::TokenChoice(Backend& backend, std::int32_t most_rows, bool draws)
    : backend_(backend), draws_(draws) {
  const auto count = static_cast<std::size_t>(most_rows);
  rows_.reserve(count);
  tokens_.reserve(count);
  device_rows_ = backend.allocate(count * sizeof(std::int32_t));
  device_tokens_ = backend.allocate(count * sizeof(std::int32_t));
}

const std::int32_t* TokenChoice::on_device(std::span<const std::int32_t> rows) {
  auto* device = static_cast<std::int32_t*>(device_rows_.get());
  backend_.copy_to_device(device, rows.data(), rows.size() * sizeof(std::int32_t));
  return device;
}

void TokenChoice::choose(LogitSource& source, std::span<const ProposerWork> work, std::int32_t index,
                         std::int32_t ahead, std::vector<Drafting>& drafting, std::span<Proposal> proposals) {
  const std::span active(drafting.data(), static_cast<std::size_t>(still_drafting(drafting, index)));
  if (active.empty()) return;
  rows_.clear();
  for (const Drafting& d : active) rows_.push_back(d.row + ahead);
  const std::int32_t* device_rows = on_device(rows_);
  const auto count = static_cast<std::int64_t>(rows_.size());
  tokens_.resize(rows_.size());
  if (draws_) {
    const Tensor logits = source.logits(device_rows, count);
    const std::span<const std::int32_t> ids = source.token_ids();
    logits_.resize(static_cast<std::size_t>(logits.cols));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const auto at = static_cast<std::size_t>(active[i].work);
      backend_.copy_to_host(logits_.data(), logits.row_range(static_cast<std::int64_t>(i), 1).data,
                            logits_.size() * sizeof(float));
      backend_.synchronise();
      const std::int32_t entry = draw(work[at], index, proposals[at]);
      tokens_[i] = entry < 0 || ids.empty() ? entry : ids[static_cast<std::size_t>(entry)];
    }
  } else {
    auto* device_tokens = static_cast<std::int32_t*>(device_tokens_.get());
    source.argmax(device_rows, count, device_tokens);
    exchanged_bytes_ += count * source.argmax_bytes();
    backend_.copy_to_host(tokens_.data(), device_tokens, tokens_.size() * sizeof(std::int32_t));
    backend_.synchronise();
  }
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (tokens_[i] < 0) {
      active[i].drafts = index;
    } else {
      proposals[static_cast<std::size_t>(active[i].work)].tokens.push_back(tokens_[i]);
    }
  }
  sort_by_drafts(drafting);
}

std::int32_t TokenChoice::draw(const ProposerWork& work, std::int32_t index, Proposal& proposal) {
  if (work.temperature <= 0) {  // a greedy request's drafts are chosen
    const bool nan = std::ranges::any_of(logits_, [](float x) { return std::isnan(x); });
    return nan ? -1 : static_cast<std::int32_t>(std::ranges::max_element(logits_) - logits_.begin());
  }
  const std::uint64_t number = work.draw + static_cast<std::uint64_t>(index);
  probs_.resize(logits_.size());
  if (work.keeps_seed) {
    return draw_draft(logits_, work.temperature, uniform_draw(work.seed, number, DrawFor::kToken), probs_);
  }
  const double uniform = uniform_draw(work.seed, number, DrawFor::kDraft);
  const std::int32_t entry = draw_draft(logits_, work.temperature, uniform, probs_);
  if (entry >= 0) proposal.probs.insert(proposal.probs.end(), probs_.begin(), probs_.end());
  return entry;
}

}  // namespace tessera

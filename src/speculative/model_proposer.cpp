#include "speculative/model_proposer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/vocabulary_head.h"

namespace tessera {
namespace {

// A step's rows, those that wait, and a newest token for each sequence.
std::int32_t pass_rows(const ModelProposerOptions& options) {
  return options.max_tokens + options.deferred_rows + options.max_seqs;
}

}  // namespace

StepLimits ModelProposer::model_limits(const ModelProposerOptions& options) {
  return {.tokens = pass_rows(options),
          .decode_tokens = std::min(pass_rows(options),
                                    options.max_seqs * (2 + options.most_drafts) + options.deferred_rows),
          .seqs = options.max_seqs,
          .logit_rows = options.max_seqs,
          .positions = options.positions};
}

std::int64_t ModelProposer::Head::argmax_bytes() const {
  return argmax_exchange_bytes(model_.head().shard().ranks());
}

ModelProposer::ModelProposer(Backend& backend, std::unique_ptr<Model> model,
                             const ModelProposerOptions& options)
    : model_(std::move(model)),
      options_(options),
      head_(*model_),
      cache_(make_draft_cache(backend, model_->layers(), model_->kv_shape(), options.cache)),
      batch_(backend,
             {.rows = pass_rows(options),
              .seqs = options.max_seqs,
              .max_blocks = (options.max_model_len + options.cache.block_size - 1) / options.cache.block_size,
              .block_size = options.cache.block_size}),
      choice_(backend, pass_rows(options), options.draws_drafts),
      sequences_(static_cast<std::size_t>(options.max_seqs)) {
  for (Sequence& sequence : sequences_) {
    sequence.tokens.reserve(static_cast<std::size_t>(options.max_model_len + options.most_drafts));
  }
  drafting_.reserve(static_cast<std::size_t>(options.max_seqs));
}

void ModelProposer::start(std::int32_t slot, std::span<const std::int32_t> tokens, std::int32_t cached) {
  Sequence& sequence = sequences_[static_cast<std::size_t>(slot)];
  sequence.tokens.assign(tokens.begin(), tokens.end());
  sequence.known = static_cast<std::int32_t>(tokens.size());
  sequence.reached = cached;
  sequence.rows = std::min(cached, options_.positions);
  sequence.block_table.clear();
}

void ModelProposer::retire(std::int32_t slot) {
  Sequence& sequence = sequences_[static_cast<std::size_t>(slot)];
  // Its blocks may stay in the prefix cache: they must be complete.
  batch_.clear();
  if (waiting(sequence) > 0) add_rows(sequence, sequence.reached, true);
  forward();
  sequence.tokens.clear();
  sequence.known = sequence.reached = sequence.rows = 0;
  sequence.block_table.clear();
}

void ModelProposer::learn(const ProposerWork& work, Sequence& sequence) const {
  for (std::size_t i = 0; i < work.tokens.size(); ++i) {
    const std::int32_t position = work.first_position + static_cast<std::int32_t>(i);
    const auto at = static_cast<std::size_t>(position);
    TS_CHECK(at <= sequence.tokens.size(), work.slot, at, sequence.tokens.size());
    if (at < sequence.tokens.size() && sequence.tokens[at] == work.tokens[i]) continue;
    TS_CHECK(position >= sequence.known, work.slot, position, sequence.known);
    sequence.tokens.resize(at);
    sequence.tokens.push_back(work.tokens[i]);
    sequence.rows = std::min(sequence.rows, position);
  }
  sequence.reached = work.newest_position();
  sequence.known = std::max(sequence.known, work.newest_position() + 1);
  sequence.tokens.resize(static_cast<std::size_t>(sequence.known));
  sequence.rows = std::min(sequence.rows, sequence.known);
  sequence.block_table.assign(work.block_table.begin(), work.block_table.end());
}

std::int32_t ModelProposer::add_rows(Sequence& sequence, std::int32_t end, bool is_decode) {
  const auto in_blocks = static_cast<std::int32_t>(sequence.block_table.size()) * options_.cache.block_size;
  const std::int32_t last = std::min({end, in_blocks, options_.positions});
  if (sequence.rows >= last) return -1;
  batch_.add_sequence(sequence.block_table, is_decode);
  for (std::int32_t p = sequence.rows; p < last; ++p) {
    batch_.add_row(sequence.tokens[static_cast<std::size_t>(p)], p, p + 1);
  }
  sequence.rows = last;
  return last == end ? batch_.rows() - 1 : -1;
}

void ModelProposer::forward() {
  if (batch_.rows() == 0) return;
  head_.hidden = model_->forward(batch_.upload(), cache_.layers);
  ++passes_;
}

void ModelProposer::propose(std::span<const ProposerWork> work, const Tensor&,
                            std::span<Proposal> proposals) {
  TS_CHECK(proposals.size() == work.size(), proposals.size(), work.size());
  bool may_wait = true;
  std::int32_t wait = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const ProposerWork& one = work[i];
    Sequence& sequence = sequences_[static_cast<std::size_t>(one.slot)];
    proposals[i].tokens.clear();
    proposals[i].probs.clear();
    learn(one, sequence);
    may_wait = may_wait && one.is_decode && one.drafts == 0;
  }
  for (const Sequence& sequence : sequences_) wait += std::max(0, waiting(sequence));
  if (may_wait && wait <= options_.deferred_rows) return;

  batch_.clear();
  drafting_.clear();
  // First the rows that wait of sequences that are not in this step: one of those that are may share blocks.
  for (std::size_t slot = 0; slot < sequences_.size(); ++slot) {
    const auto here = [&](const ProposerWork& one) { return one.slot == static_cast<std::int32_t>(slot); };
    if (waiting(sequences_[slot]) <= 0 || std::ranges::any_of(work, here)) continue;
    add_rows(sequences_[slot], sequences_[slot].reached, true);
  }
  for (std::size_t i = 0; i < work.size(); ++i) {
    const ProposerWork& one = work[i];
    Sequence& sequence = sequences_[static_cast<std::size_t>(one.slot)];
    const bool drafts = one.drafts > 0;
    // Confirmed drafts have their rows already, but the newest token's hidden state is wanted.
    if (drafts) sequence.rows = std::min(sequence.rows, one.newest_position());
    const std::int32_t row = add_rows(sequence, one.newest_position() + (drafts ? 1 : 0), one.is_decode);
    if (!drafts || row < 0) continue;
    const std::int32_t room =
        rows_within(one, options_.cache.block_size, options_.positions) - one.newest_position();
    drafting_.push_back({.work = static_cast<std::int32_t>(i),
                         .row = row,
                         .drafts = std::min({one.drafts, options_.most_drafts, room})});
  }
  forward();
  sort_by_drafts(drafting_);
  for (std::int32_t k = 0; !drafting_.empty(); ++k) {
    choice_.choose(head_, work, k, 0, drafting_, proposals);
    const std::int32_t next = still_drafting(drafting_, k + 1);
    if (next == 0) return;
    batch_.clear();
    for (std::int32_t i = 0; i < next; ++i) {
      Drafting& d = drafting_[static_cast<std::size_t>(i)];
      const ProposerWork& one = work[static_cast<std::size_t>(d.work)];
      Sequence& sequence = sequences_[static_cast<std::size_t>(one.slot)];
      sequence.tokens.push_back(proposals[static_cast<std::size_t>(d.work)].tokens.back());
      d.row = add_rows(sequence, static_cast<std::int32_t>(sequence.tokens.size()), true);
      TS_CHECK(d.row == i, d.row, i);
    }
    forward();
  }
}

}  // namespace tessera

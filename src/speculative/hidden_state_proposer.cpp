#include "speculative/hidden_state_proposer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tessera {
namespace {

// Rows of the observing pass: a step's and those that wait.
std::int32_t observed_rows(const HiddenStateProposerOptions& options) {
  return options.max_tokens + options.deferred_rows;
}

std::int32_t blocks_for(std::int32_t tokens, std::int32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

RowBatch::Limits row_limits(const HiddenStateProposerOptions& options, std::int32_t rows, std::int32_t seqs) {
  return {.rows = rows,
          .seqs = seqs,
          .max_blocks = blocks_for(options.max_model_len, options.cache.block_size),
          .block_size = options.cache.block_size};
}

std::int32_t block_rows(const ModelConfig& draft, const HiddenStateProposerOptions& options) {
  return options.max_seqs * static_cast<std::int32_t>(std::max<std::int64_t>(1, draft.draft->block_size));
}

}  // namespace

StepLimits HiddenStateProposer::draft_limits(const ModelConfig& draft,
                                             const HiddenStateProposerOptions& options) {
  const std::int32_t rows = std::max(observed_rows(options), block_rows(draft, options));
  const std::int32_t decode_rows =
      std::min(rows, options.max_seqs * (1 + options.most_drafts) + options.deferred_rows);
  return {.tokens = rows,
          .decode_tokens = std::max(decode_rows, block_rows(draft, options)),
          .seqs = options.max_seqs,
          .logit_rows = options.max_seqs,
          .positions = options.max_model_len};
}

HiddenStateProposer::HiddenStateProposer(Backend& backend, std::unique_ptr<DraftModel> draft,
                                         const HiddenStateProposerOptions& options)
    : backend_(backend),
      draft_(std::move(draft)),
      options_(options),
      head_(*draft_),
      cache_(make_draft_cache(backend, draft_->layers(), draft_->kv_shape(), options.cache)),
      observed_(backend,
                row_limits(options, observed_rows(options), options.max_seqs + options.deferred_rows)),
      steps_(backend, row_limits(options, block_rows(draft_->config(), options), options.max_seqs)),
      choice_(backend, std::max(observed_rows(options), options.max_seqs), options.draws_drafts) {
  const auto states = static_cast<std::int64_t>(draft_->aux_layers().after.size());
  const std::int64_t width = states * draft_->config().draft->target_hidden;
  const std::int64_t rows = observed_rows(options);
  const DType dtype = backend.activation_dtype();
  aux_storage_ = backend.allocate(static_cast<std::size_t>(rows * width * bytes_of(dtype)));
  aux_ = Tensor::dense(aux_storage_.get(), dtype, rows, width);
  rows_.reserve(static_cast<std::size_t>(std::max(options.max_tokens, options.max_seqs)));
  drafting_.reserve(static_cast<std::size_t>(options.max_seqs));
  waiting_slots_.reserve(static_cast<std::size_t>(options.deferred_rows));
}

std::int32_t HiddenStateProposer::lookahead(std::int32_t drafts) const {
  if (drafts <= 0) return 0;
  // One by one: each draft but the last is a row of the next pass. A block is written whole.
  return draft_->block_size() > 0 ? static_cast<std::int32_t>(draft_->block_size()) : drafts - 1;
}

void HiddenStateProposer::retire(std::int32_t slot) {
  if (std::ranges::find(waiting_slots_, slot) != waiting_slots_.end()) observe();
}

std::int32_t HiddenStateProposer::collect(const ProposerWork& work, const Tensor& aux) {
  const auto stand = static_cast<std::int32_t>(work.tokens.size()) - 1;
  TS_CHECK(stand >= 1, stand);
  const std::int32_t end = rows_within(work, options_.cache.block_size, draft_->positions());
  const std::int32_t count = std::clamp(end - work.first_position, 0, stand);
  if (count == 0) return -1;
  const std::int32_t first = observed_.rows();
  observed_.add_sequence(work.block_table, work.is_decode);
  rows_.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t position = work.first_position + i;
    observed_.add_row(work.tokens[static_cast<std::size_t>(i) + 1], position, position + 1);
    rows_.push_back(work.first_row + i);
  }
  backend_.gather_rows(aux, choice_.on_device(rows_), aux_.row_range(first, count));
  return count < stand ? -1 : observed_.rows() - 1;
}

void HiddenStateProposer::observe() {
  if (observed_.rows() > 0) {
    draft_->observe(observed_.upload(), aux_.row_range(0, observed_.rows()), cache_.layers);
    ++passes_;
  }
  observed_.clear();
  waiting_slots_.clear();
}

void HiddenStateProposer::propose(std::span<const ProposerWork> work, const Tensor& aux,
                                  std::span<Proposal> proposals) {
  TS_CHECK(proposals.size() == work.size(), proposals.size(), work.size());
  std::int32_t standing = 0;
  bool may_wait = true;
  for (const ProposerWork& one : work) {
    standing += static_cast<std::int32_t>(one.tokens.size()) - 1;
    may_wait = may_wait && one.is_decode && one.drafts == 0;
  }
  // What waits must leave room for the next whole step.
  const bool fits = observed_.rows() + standing <= options_.deferred_rows &&
                    observed_.sequences() + static_cast<std::int32_t>(work.size()) <= options_.deferred_rows;
  drafting_.clear();
  for (std::size_t i = 0; i < work.size(); ++i) {
    const ProposerWork& one = work[i];
    proposals[i].tokens.clear();
    proposals[i].probs.clear();
    const std::int32_t last = collect(one, aux);
    if (last < 0 || one.drafts <= 0) continue;
    const std::int32_t room =
        rows_within(one, options_.cache.block_size, draft_->positions()) - one.newest_position();
    const std::int32_t most = draft_->block_size() > 0
                                  ? std::min(static_cast<std::int32_t>(draft_->block_size()), room) - 1
                                  : std::max(room, 0) + 1;
    const std::int32_t drafts = std::min({one.drafts, options_.most_drafts, most});
    if (drafts > 0)
      drafting_.push_back({.work = static_cast<std::int32_t>(i), .row = last, .drafts = drafts});
  }
  if (may_wait && fits) {
    for (const ProposerWork& one : work) waiting_slots_.push_back(one.slot);
    return;
  }
  observe();
  if (drafting_.empty()) return;
  sort_by_drafts(drafting_);
  if (draft_->block_size() > 0) {
    draft_block(work, proposals);
  } else {
    draft_one_by_one(work, proposals);
  }
}

void HiddenStateProposer::advance(const std::int32_t* from) {
  const ForwardBatch batch = steps_.upload();
  draft_->advance({.ids = batch.ids, .from = from, .attention = batch.decode}, cache_.layers);
  ++passes_;
}

void HiddenStateProposer::draft_one_by_one(std::span<const ProposerWork> work,
                                           std::span<Proposal> proposals) {
  for (std::int32_t k = 0;; ++k) {
    choice_.choose(head_, work, k, 0, drafting_, proposals);
    const std::int32_t next = still_drafting(drafting_, k + 1);
    if (next == 0) return;
    steps_.clear();
    rows_.clear();
    for (std::int32_t i = 0; i < next; ++i) {
      Drafting& d = drafting_[static_cast<std::size_t>(i)];
      const ProposerWork& one = work[static_cast<std::size_t>(d.work)];
      const std::int32_t position = one.newest_position() + k;
      steps_.add_sequence(one.block_table, true);
      steps_.add_row(proposals[static_cast<std::size_t>(d.work)].tokens.back(), position, position + 1);
      rows_.push_back(d.row);
      d.row = i;
    }
    advance(choice_.on_device(rows_));
  }
}

void HiddenStateProposer::draft_block(std::span<const ProposerWork> work, std::span<Proposal> proposals) {
  const std::int32_t mask = draft_->config().draft->mask_token;
  const auto block = static_cast<std::int32_t>(draft_->block_size());
  steps_.clear();
  for (Drafting& d : drafting_) {
    const ProposerWork& one = work[static_cast<std::size_t>(d.work)];
    const std::int32_t start = one.newest_position();
    const std::int32_t end =
        std::min(start + block, rows_within(one, options_.cache.block_size, draft_->positions()));
    d.row = steps_.rows();
    steps_.add_sequence(one.block_table, true);
    for (std::int32_t p = start; p < end; ++p) steps_.add_row(p == start ? one.tokens.back() : mask, p, end);
  }
  advance(nullptr);
  // Row i of a block predicts the token at its own position; row 0 is the newest token itself.
  const std::int32_t longest = drafting_.front().drafts;
  for (std::int32_t k = 0; k < longest; ++k) choice_.choose(head_, work, k, k + 1, drafting_, proposals);
}

}  // namespace tessera

#include "speculative/draft_trial.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "speculative/row_batch.h"

namespace tessera {
namespace {

constexpr std::int64_t kPermuted = 3;
constexpr double kLeastRate = 0.2;  // of first drafts; fitting drafts of the shipped model have 0.6 and more

class DraftTrial {
 public:
  explicit DraftTrial(const DraftTrialSetup& setup)
      : setup_(setup),
        block_size_(setup.kv.front().block_size),
        blocks_((rows() + setup.proposer.lookahead(1) + block_size_ - 1) / block_size_),
        row_(setup.backend.allocate(sizeof(std::int32_t))),
        token_(setup.backend.allocate(sizeof(std::int32_t))) {
    TS_CHECK(!setup.sentence.empty() && setup.prompt_tokens > 0, setup.sentence.size(), setup.prompt_tokens);
    TS_CHECK(blocks_ <= setup.kv.front().blocks, blocks_, setup.kv.front().blocks);
    table_.resize(static_cast<std::size_t>(blocks_));
    std::iota(table_.begin(), table_.end(), 0);
  }

  DraftTrialReport run() {
    write_text();
    std::vector<std::int64_t> order(static_cast<std::size_t>(states_));
    std::iota(order.begin(), order.end(), 0);
    DraftTrialReport report{.guessed = setup_.steps, .right = right_guesses(order)};
    for (std::int64_t other = 1; other < orders(); ++other) {
      if (states_ == kPermuted) {
        std::ranges::next_permutation(order);
      } else {
        std::rotate(order.begin(), order.begin() + 1, order.end());
      }
      report.best_other = std::max(report.best_other, right_guesses(order));
    }
    return report;
  }

 private:
  // All permutations of a few states, all rotations of many; the first order is the given one.
  std::int64_t orders() const { return states_ == kPermuted ? 6 : states_; }
  std::int32_t rows() const { return setup_.prompt_tokens + setup_.steps; }

  // The target's own text after the prompt, and its hidden states of every row.
  void write_text() {
    for (std::int32_t i = 0; i < setup_.prompt_tokens; ++i) {
      text_.push_back(setup_.sentence[static_cast<std::size_t>(i) % setup_.sentence.size()]);
    }
    RowBatch batch(
        setup_.backend,
        {.rows = setup_.prompt_tokens, .seqs = 1, .max_blocks = blocks_, .block_size = block_size_});
    for (std::int32_t first = 0; first < rows(); first += first == 0 ? setup_.prompt_tokens : 1) {
      const std::int32_t count = first == 0 ? setup_.prompt_tokens : 1;
      batch.clear();
      batch.add_sequence(table_, first > 0);
      for (std::int32_t p = first; p < first + count; ++p)
        batch.add_row(text_[static_cast<std::size_t>(p)], p, p + 1);
      const Tensor hidden = setup_.target.forward(batch.upload(), setup_.kv);
      keep_aux(setup_.target.aux_states(), first);
      text_.push_back(best_after(hidden, count - 1));
    }
  }

  void keep_aux(const Tensor& aux, std::int32_t first) {
    if (first == 0) {
      const std::int64_t bytes = rows() * aux.cols * bytes_of(aux.dtype);
      for (Buffer* storage : {&aux_storage_, &ordered_storage_}) {
        *storage = setup_.backend.allocate(static_cast<std::size_t>(bytes));
      }
      aux_ = Tensor::dense(aux_storage_.get(), aux.dtype, rows(), aux.cols);
      ordered_ = Tensor::dense(ordered_storage_.get(), aux.dtype, rows(), aux.cols);
      states_ = aux.cols / setup_.hidden;
    }
    setup_.backend.copy(aux, aux_.row_range(first, aux.rows));
  }

  std::int32_t best_after(const Tensor& hidden, std::int32_t row) {
    std::int32_t token = 0;
    setup_.backend.copy_to_device(row_.get(), &row, sizeof row);
    setup_.target.argmax(hidden, static_cast<const std::int32_t*>(row_.get()), 1,
                         static_cast<std::int32_t*>(token_.get()));
    setup_.backend.copy_to_host(&token, token_.get(), sizeof token);
    setup_.backend.synchronise();
    return std::max(token, 0);  // a NaN is the target's trouble, not the draft's
  }

  // The text is known: each step hands over one token and its row, and looks at the guess of the next but
  // one.
  std::int32_t right_guesses(const std::vector<std::int64_t>& order) {
    const std::int64_t width = states_ > 0 ? aux_.cols / states_ : 0;
    for (std::int64_t i = 0; i < states_; ++i) {
      setup_.backend.copy(aux_.col_range(order[static_cast<std::size_t>(i)] * width, width),
                          ordered_.col_range(i * width, width));
    }
    const std::span<const std::int32_t> text(text_);
    setup_.proposer.start(0, text.first(static_cast<std::size_t>(setup_.prompt_tokens)), 0);
    std::vector<Proposal> proposal(1);
    std::int32_t right = 0;
    for (std::int32_t first = 0; first + 1 < rows(); first += first == 0 ? setup_.prompt_tokens : 1) {
      const std::int32_t count = first == 0 ? setup_.prompt_tokens : 1;
      const ProposerWork work{
          .slot = 0,
          .is_decode = first > 0,
          .first_row = first,
          .first_position = first,
          .tokens = text.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count) + 1),
          .block_table = table_,
          .drafts = 1};
      setup_.proposer.propose({&work, 1}, ordered_, proposal);
      const std::vector<std::int32_t>& drafts = proposal.front().tokens;
      right += !drafts.empty() && drafts.front() == text[static_cast<std::size_t>(first + count) + 1] ? 1 : 0;
    }
    setup_.proposer.retire(0);
    return right;
  }

  const DraftTrialSetup& setup_;
  std::int32_t block_size_;
  std::int32_t blocks_;
  Buffer row_, token_, aux_storage_, ordered_storage_;
  std::vector<std::int32_t> table_;
  std::vector<std::int32_t> text_;  // prompt, then what the target said: [rows + 1]
  Tensor aux_, ordered_;            // [rows, states * hidden]
  std::int64_t states_ = 0;         // hidden states of a row
};

}  // namespace

DraftTrialReport try_draft(const DraftTrialSetup& setup) { return DraftTrial(setup).run(); }

std::optional<std::string> warning_of(const DraftTrialReport& report) {
  const std::string found = "speculation: the draft guessed " + std::to_string(report.right) + " of " +
                            std::to_string(report.guessed) + " tokens after a repeated sentence";
  const std::string advice =
      " It does not fit this model: check which model it was made for and which layers' hidden states its "
      "config "
      "names. Answers stay right, but speculation will cost more than it gives.";
  if (report.best_other > report.right) {
    return found + ", but " + std::to_string(report.best_other) + " from hidden states in another order." +
           advice;
  }
  if (report.rate() < kLeastRate) return found + "." + advice;
  return std::nullopt;
}

}  // namespace tessera

#include "speculative/draft_trial.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "speculative/row_batch.h"

namespace tessera {
namespace {

constexpr std::int64_t kPermuted = 3;
// Of first guesses. The shipped drafts have 0.23 to 0.43 and lead all other orders by a tenth and more; fed
// the reverse order they have 0.06 to 0.19, and the right one leads by 1.6 times and more.
constexpr double kLeastRate = 0.05;
constexpr double kAllowedLead = 1.1;  // of another order, which may be chance

class DraftTrial {
 public:
  explicit DraftTrial(const DraftTrialSetup& setup)
      : setup_(setup),
        block_size_(setup.kv.front().block_size),
        blocks_((setup.tokens + setup.proposer.lookahead(1) + block_size_ - 1) / block_size_),
        row_(setup.backend.allocate(sizeof(std::int32_t))),
        token_(setup.backend.allocate(sizeof(std::int32_t))) {
    TS_CHECK(setup.tokens > 1, setup.tokens);
    TS_CHECK(blocks_ <= setup.kv.front().blocks, blocks_, setup.kv.front().blocks);
    table_.resize(static_cast<std::size_t>(blocks_));
    std::iota(table_.begin(), table_.end(), 0);
  }

  DraftTrialReport run() {
    write_text();
    std::vector<std::int64_t> order(static_cast<std::size_t>(states_));
    std::iota(order.begin(), order.end(), 0);
    DraftTrialReport report{.guessed = setup_.tokens - 1, .right = right_guesses(order)};
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

  // The text, the target's hidden states of every row, and what it likes best behind each.
  void write_text() {
    RowBatch batch(setup_.backend, {.rows = 1, .seqs = 1, .max_blocks = blocks_, .block_size = block_size_});
    text_.push_back(setup_.first_token);
    for (std::int32_t p = 0; p < setup_.tokens; ++p) {
      batch.clear();
      batch.add_sequence(table_, p > 0);
      batch.add_row(text_.back(), p, p + 1);
      const Tensor hidden = setup_.target.forward(batch.upload(), setup_.kv);
      keep_aux(setup_.target.aux_states(), p);
      const std::int32_t row = 0;
      setup_.backend.copy_to_device(row_.get(), &row, sizeof row);
      choose(hidden, p);
    }
  }

  void keep_aux(const Tensor& aux, std::int32_t row) {
    if (row == 0) {
      const std::int64_t bytes = setup_.tokens * aux.cols * bytes_of(aux.dtype);
      for (Buffer* storage : {&aux_storage_, &ordered_storage_}) {
        *storage = setup_.backend.allocate(static_cast<std::size_t>(bytes));
      }
      aux_ = Tensor::dense(aux_storage_.get(), aux.dtype, setup_.tokens, aux.cols);
      ordered_ = Tensor::dense(ordered_storage_.get(), aux.dtype, setup_.tokens, aux.cols);
      states_ = aux.cols / setup_.hidden;
    }
    setup_.backend.copy(aux, aux_.row_range(row, 1));
  }

  // The text's next token, drawn, and the one that the draft should guess: both of the row just computed.
  void choose(const Tensor& hidden, std::int32_t position) {
    const auto* rows = static_cast<const std::int32_t*>(row_.get());
    std::int32_t best = 0;
    setup_.target.argmax(hidden, rows, 1, static_cast<std::int32_t*>(token_.get()));
    setup_.backend.copy_to_host(&best, token_.get(), sizeof best);
    setup_.backend.synchronise();
    liked_.push_back(best);
    const SamplingRow draw{.temperature = 1, .seed = 1, .draw = static_cast<std::uint64_t>(position)};
    SampledToken drawn;
    setup_.backend.sample(setup_.target.logits(hidden, rows, 1), {&draw, 1}, {&drawn, 1});
    text_.push_back(drawn.invalid ? 0 : drawn.token);  // a NaN is the target's trouble, not the draft's
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
    setup_.proposer.start(0, text.first(1), 0);
    std::vector<Proposal> proposal(1);
    std::int32_t right = 0;
    for (std::int32_t p = 0; p + 1 < setup_.tokens; ++p) {
      const ProposerWork work{.slot = 0,
                              .is_decode = p > 0,
                              .first_row = p,
                              .first_position = p,
                              .tokens = text.subspan(static_cast<std::size_t>(p), 2),
                              .block_table = table_,
                              .drafts = 1};
      setup_.proposer.propose({&work, 1}, ordered_, proposal);
      const std::vector<std::int32_t>& drafts = proposal.front().tokens;
      right += !drafts.empty() && drafts.front() == liked_[static_cast<std::size_t>(p) + 1] ? 1 : 0;
    }
    setup_.proposer.retire(0);
    return right;
  }

  const DraftTrialSetup& setup_;
  std::int32_t block_size_;
  std::int32_t blocks_;
  Buffer row_, token_, aux_storage_, ordered_storage_;
  std::vector<std::int32_t> table_;
  std::vector<std::int32_t> text_;   // [tokens + 1]
  std::vector<std::int32_t> liked_;  // [tokens] the target's own choice behind each of the text
  Tensor aux_, ordered_;             // [tokens, states * hidden]
  std::int64_t states_ = 0;          // hidden states of a row
};

}  // namespace

DraftTrialReport try_draft(const DraftTrialSetup& setup) { return DraftTrial(setup).run(); }

std::optional<std::string> warning_of(const DraftTrialReport& report) {
  const std::string found = "speculation: of a text of the model's own, the draft guessed " +
                            std::to_string(report.right) + " of " + std::to_string(report.guessed) +
                            " tokens";
  const std::string advice =
      " It does not fit this model: check which model it was made for and which layers' hidden states its "
      "config names. Answers stay right, but speculation will cost more than it gives.";
  if (report.best_other > kAllowedLead * report.right) {
    return found + ", but " + std::to_string(report.best_other) + " from hidden states in another order." +
           advice;
  }
  if (report.rate() < kLeastRate) return found + "." + advice;
  return std::nullopt;
}

}  // namespace tessera

#include "engine/step_rows.h"

#include <algorithm>

namespace tessera {
namespace {

// The work with its own rows among the entries of the plan's lists.
SequenceWork closed(const SequenceWork& work, const SlotStanding& standing) {
  SequenceWork closed = work;
  closed.open_rows = 0;
  const std::int32_t skipped = standing.newest_position - work.first_position;
  // Before the first place: the newest token was none (a NaN). Past the last: max_tokens are there.
  if (skipped < 0 || skipped >= work.count) {
    closed.count = 1;
    closed.samples = false;
    closed.drafts_wanted = 0;
    return closed;
  }
  closed.first_position = standing.newest_position;
  closed.first_token += skipped;
  closed.count = std::min({work.open_rows, 1 + standing.drafts, work.count - skipped});
  return closed;
}

}  // namespace

RowResolver::RowResolver(std::int32_t tokens, std::int32_t seqs) {
  const auto most = static_cast<std::size_t>(tokens);
  work_.reserve(static_cast<std::size_t>(seqs));
  tokens_.reserve(most);
  positions_.reserve(most);
  next_tokens_.reserve(most);
  visible_rows_.reserve(most);
  slots_.reserve(most);
}

StepRows RowResolver::resolve(const StepPlan& plan, std::int32_t view,
                              const std::function<SlotStanding(std::int32_t slot)>& standing) {
  const RankView& mine = plan.views[static_cast<std::size_t>(view)];
  if (std::ranges::all_of(plan.work, [](const SequenceWork& work) { return work.open_rows == 0; })) {
    return {.work = plan.work,
            .tokens = plan.tokens,
            .positions = plan.positions,
            .next_tokens = plan.next_tokens,
            .slots = mine.slots,
            .visible_rows = mine.visible_rows};
  }
  work_.clear();
  tokens_.clear();
  positions_.clear();
  next_tokens_.clear();
  visible_rows_.clear();
  slots_.clear();
  for (const SequenceWork& planned : plan.work) {
    SequenceWork work = planned.open_rows > 0 ? closed(planned, standing(planned.slot)) : planned;
    const auto take = [&](const auto& from, auto& to) {
      const auto first = from.begin() + work.first_token;
      to.insert(to.end(), first, first + work.count);
    };
    const auto first_token = static_cast<std::int32_t>(tokens_.size());
    take(plan.tokens, tokens_);
    take(plan.positions, positions_);
    take(plan.next_tokens, next_tokens_);
    take(mine.slots, slots_);
    take(mine.visible_rows, visible_rows_);
    if (planned.samples && !work.samples) slots_.back() = -1;
    work.first_token = first_token;
    work_.push_back(work);
  }
  return {.work = work_,
          .tokens = tokens_,
          .positions = positions_,
          .next_tokens = next_tokens_,
          .slots = slots_,
          .visible_rows = visible_rows_};
}

}  // namespace tessera

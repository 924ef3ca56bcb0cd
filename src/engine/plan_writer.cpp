#include "engine/plan_writer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"

namespace tessera {

namespace {

// What the plan before wrote into a table, in the table of this one.
void repeat_writes(const std::vector<std::int32_t>& from, const std::vector<TableWrite>& writes,
                   std::int32_t max_blocks, std::vector<std::int32_t>& to) {
  for (const TableWrite& write : writes) {
    const std::int64_t first = std::int64_t{write.row} * max_blocks + write.first;
    std::copy_n(from.begin() + first, write.count, to.begin() + first);
  }
}

}  // namespace

PlanWriter::PlanWriter(const Limits& limits, const KvCache& kv) : limits_(limits), kv_(kv) {
  for (StepPlan& plan : plans_) reserve(plan);
  const auto rows = static_cast<std::size_t>(written().table_rows);
  rows_.resize(rows);
  shown_.assign(rows * static_cast<std::size_t>(kv.ranks()), 0);
}

void PlanWriter::reserve(StepPlan& plan) const {
  const auto ranks = static_cast<std::size_t>(kv_.ranks());
  const auto tokens =
      static_cast<std::size_t>(limits_.max_num_batched_tokens + limits_.max_num_seqs * limits_.most_drafts);
  plan.max_blocks = limits_.max_blocks;
  plan.table_rows = (ranks > 1 ? 2 : 1) * limits_.max_num_seqs;
  const auto rows = static_cast<std::size_t>(plan.table_rows);
  plan.work.reserve(static_cast<std::size_t>(limits_.max_num_seqs));
  plan.tokens.reserve(tokens);
  plan.positions.reserve(tokens);
  plan.next_tokens.reserve(tokens);
  if (ranks > 1) plan.context_owners.reserve(static_cast<std::size_t>(limits_.max_blocks));
  if (limits_.shared_table) {
    plan.shared_table.assign(rows * static_cast<std::size_t>(limits_.max_blocks), -1);
    plan.shared_writes.reserve(rows);
  }
  plan.views.resize(ranks);
  for (RankView& view : plan.views) {
    view.slots.reserve(tokens);
    view.visible_rows.reserve(tokens);
    view.block_table.assign(rows * static_cast<std::size_t>(limits_.max_blocks), -1);
    view.table_writes.reserve(rows);
  }
}

void PlanWriter::begin(std::vector<std::int32_t>& retired) {
  const StepPlan& before = written();
  current_ = 1 - current_;
  StepPlan& plan = written();
  plan.step = before.step + 1;
  rows_used_ = {};
  plan.retired.clear();
  std::swap(plan.retired, retired);
  plan.starts.clear();
  plan.work.clear();
  plan.tokens.clear();
  plan.positions.clear();
  plan.next_tokens.clear();
  plan.context_owners.clear();
  plan.shared_writes.clear();
  repeat_writes(before.shared_table, before.shared_writes, limits_.max_blocks, plan.shared_table);
  for (std::size_t rank = 0; rank < plan.views.size(); ++rank) {
    RankView& view = plan.views[rank];
    const RankView& view_before = before.views[rank];
    view.slots.clear();
    view.visible_rows.clear();
    view.table_writes.clear();
    repeat_writes(view_before.block_table, view_before.table_writes, limits_.max_blocks, view.block_table);
  }
  for (auto& mask : plan.allowed_masks) spare_masks_.push_back(std::move(mask));
  plan.allowed_masks.clear();
}

void PlanWriter::start(const Sequence& sequence) {
  const auto prompt_end = sequence.tokens.begin() + sequence.prompt_size;
  written().starts.push_back({.slot = sequence.slot,
                              .sampling = sequence.sampling,
                              .seed = sequence.seed,
                              .prompt = {sequence.tokens.begin(), prompt_end},
                              .output = {prompt_end, sequence.tokens.end()},
                              .end_tokens = sequence.stop_tokens});
}

void PlanWriter::add(Sequence& sequence) {
  SequenceWork work = work_of(sequence);
  std::int32_t& used = rows_used_[static_cast<std::size_t>(sequence.blocks.spread)];
  TS_CHECK(used < limits_.max_num_seqs, used, limits_.max_num_seqs);
  work.table_row = used++ + (work.is_sharded ? limits_.max_num_seqs : 0);
  if (work.is_sharded && !work.is_decode) {
    work.context_owners = static_cast<std::int32_t>(written().context_owners.size());
    for (std::int32_t i = 0; i < kv_.blocks_for(sequence.next_row()); ++i) {
      const int owner = kv_.owner(sequence.blocks.ids[static_cast<std::size_t>(i)]);
      written().context_owners.push_back(static_cast<std::uint8_t>(owner));
    }
  }
  if (work.samples && sequence.sampling.constraint)
    work.allowed_mask = add_masks(sequence, work.is_decode ? work.count - 1 : 0);
  add_tokens(sequence, work);
  for (std::int32_t rank = 0; rank < kv_.ranks(); ++rank) add_rows_on(rank, sequence);
  write_table_row(work.table_row, sequence);
  written().work.push_back(work);
}

SequenceWork PlanWriter::work_of(const Sequence& sequence) const {
  const std::int32_t end = sequence.next_row() + sequence.planned;
  const std::int32_t last = sequence.certain_size() + sequence.drafts;
  TS_CHECK(sequence.planned > 0 && end <= last, sequence.planned, end, last);
  TS_CHECK(sequence.planned <= sequence.places, sequence.planned, sequence.places);
  const bool is_decode = sequence.decode_row >= 0;
  // Where its newest token lies, or how many drafts follow it, is the runner's to know.
  const bool is_open =
      is_decode && (sequence.flying_drafts > 0 || (sequence.places > 1 && !sequence.drafts_known));
  TS_CHECK(!is_open || !sequence.sampling.constraint, sequence.id.value);  // its masks are for known places
  SequenceWork work{.slot = sequence.slot,
                    .first_token = static_cast<std::int32_t>(plan().tokens.size()),
                    .count = sequence.places,
                    .open_rows = is_open ? sequence.planned : 0,
                    .first_position = sequence.next_row(),
                    .is_decode = is_decode,
                    .is_sharded = sequence.blocks.spread == Spread::kSharded,
                    .samples = end >= sequence.certain_size() && sequence.certain_remaining() > 0,
                    .drafts_wanted = sequence.drafts_wanted};
  // Nothing is asked for tokens whose logprobs were handed out before a preemption.
  if (!is_decode && sequence.wants_prompt_logprobs() && end > sequence.prompt_logprobs_given)
    work.prompt_logprobs = *sequence.sampling.prompt_logprobs;
  return work;
}

// The index of the first of 1 + drafts masks: what the sequence's grammar allows next, and after each draft.
std::int32_t PlanWriter::add_masks(const Sequence& sequence, std::int32_t drafts) {
  TokenConstraint& grammar = *sequence.sampling.constraint;
  TS_CHECK(drafts <= static_cast<std::int32_t>(sequence.draft_tokens.size()), drafts,
           sequence.draft_tokens.size());
  const auto first = static_cast<std::int32_t>(written().allowed_masks.size());
  std::int32_t accepted = 0;
  for (std::int32_t row = 0; row <= drafts; ++row) {
    auto& mask = add_empty_mask();
    if (accepted < row) continue;  // broken before
    try {
      grammar.allowed(mask);
      if (row == drafts) break;
      grammar.accept(sequence.draft_tokens[static_cast<std::size_t>(row)]);
      ++accepted;
    } catch (const std::exception&) {
      std::ranges::fill(mask, 0);  // no token is allowed: the request fails, and it alone
    }
  }
  grammar.rollback(accepted);
  return first;
}

std::vector<std::uint64_t>& PlanWriter::add_empty_mask() {
  auto& masks = written().allowed_masks;
  masks.emplace_back();
  if (!spare_masks_.empty()) {
    masks.back() = std::move(spare_masks_.back());
    spare_masks_.pop_back();
  }
  masks.back().assign((static_cast<std::size_t>(limits_.vocab) + 63) / 64, 0);
  return masks.back();
}

void PlanWriter::add_tokens(const Sequence& sequence, const SequenceWork& work) {
  for (std::int32_t position = work.first_position; position < work.first_position + work.count; ++position) {
    const bool is_unknown = position >= sequence.size();
    written().tokens.push_back(is_unknown ? -1 : sequence.tokens[static_cast<std::size_t>(position)]);
    written().positions.push_back(position);
    const bool has_logprob = work.prompt_logprobs >= 0 && position >= sequence.prompt_logprobs_given &&
                             position + 1 < sequence.prompt_size;
    written().next_tokens.push_back(has_logprob ? sequence.tokens[static_cast<std::size_t>(position) + 1]
                                                : -1);
  }
}

// Where the planned tokens' keys go on a rank, and how many of its rows each token sees.
void PlanWriter::add_rows_on(std::int32_t rank, const Sequence& sequence) {
  RankView& view = written().views[static_cast<std::size_t>(rank)];
  const std::int32_t size = kv_.block_size();
  const bool is_sharded = sequence.blocks.spread == Spread::kSharded;
  const std::int32_t first_row = sequence.next_row();
  const std::int32_t end = first_row + sequence.places;
  const std::int32_t first_block = first_row / size;
  const auto holds = [&](std::int32_t block) {
    return !is_sharded || kv_.owner(sequence.blocks.ids[static_cast<std::size_t>(block)]) == rank;
  };
  // Full blocks here before the current one: all that the rank has, less those from the current one on.
  std::int32_t before = first_block;
  if (is_sharded) {
    before = sequence.blocks.owned[static_cast<std::size_t>(rank)];
    for (std::int32_t i = sequence.blocks.size(); i-- > first_block;) before -= holds(i) ? 1 : 0;
  }
  for (std::int32_t block = first_block; block * size < end; ++block) {
    const bool here = holds(block);
    const std::int64_t place =
        here ? kv_.place(sequence.blocks.ids[static_cast<std::size_t>(block)], rank) : std::int64_t{0};
    const std::int32_t last = std::min(end, (block + 1) * size);
    for (std::int32_t p = std::max(first_row, block * size); p < last; ++p) {
      view.slots.push_back(here ? place * size + p % size : -1);
      view.visible_rows.push_back(before * size + (here ? p % size + 1 : 0));
    }
    before += here ? 1 : 0;
  }
}

void PlanWriter::write_table_row(std::int32_t row, const Sequence& sequence) {
  const std::int32_t blocks = sequence.blocks.size();
  TS_CHECK(blocks <= limits_.max_blocks, blocks, limits_.max_blocks);
  Row& shown = rows_[static_cast<std::size_t>(row)];
  const bool same = shown.residence == sequence.residence && shown.blocks <= blocks;
  if (same && shown.blocks == blocks) return;
  const bool is_sharded = sequence.blocks.spread == Spread::kSharded;
  for (std::int32_t rank = 0; rank < kv_.ranks(); ++rank) {
    RankView& view = written().views[static_cast<std::size_t>(rank)];
    std::int32_t* entries = view.block_table.data() +
                            static_cast<std::size_t>(row) * static_cast<std::size_t>(limits_.max_blocks);
    std::int32_t& stale = shown_[static_cast<std::size_t>(row * kv_.ranks() + rank)];
    const std::int32_t first = same ? stale : 0;
    std::int32_t next = first;
    for (std::int32_t i = same ? shown.blocks : 0; i < blocks; ++i) {
      const BlockId block = sequence.blocks.ids[static_cast<std::size_t>(i)];
      if (!is_sharded || kv_.owner(block) == rank) entries[next++] = kv_.place(block, rank);
    }
    const std::int32_t last = std::max(next, stale);
    std::fill(entries + next, entries + last, -1);
    stale = next;
    if (first < last) view.table_writes.push_back({.row = row, .first = first, .count = last - first});
  }
  if (!written().shared_table.empty()) write_shared_row(row, sequence, same);
  shown = {.residence = sequence.residence, .blocks = blocks};
}

void PlanWriter::write_shared_row(std::int32_t row, const Sequence& sequence, bool same) {
  const std::int32_t shown = rows_[static_cast<std::size_t>(row)].blocks;
  const std::int32_t blocks = sequence.blocks.size();
  std::int32_t* entries = written().shared_table.data() +
                          static_cast<std::size_t>(row) * static_cast<std::size_t>(limits_.max_blocks);
  const std::int32_t first = same ? shown : 0;
  const std::int32_t last = std::max(blocks, shown);
  for (std::int32_t i = first; i < last; ++i)
    entries[i] = i < blocks ? sequence.blocks.ids[static_cast<std::size_t>(i)].value : -1;
  written().shared_writes.push_back({.row = row, .first = first, .count = last - first});
}

}  // namespace tessera

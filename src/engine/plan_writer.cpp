#include "engine/plan_writer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"

namespace tessera {

PlanWriter::PlanWriter(const Limits& limits, const KvCache& kv) : limits_(limits), kv_(kv) {
  const auto tokens = static_cast<std::size_t>(limits.max_num_batched_tokens);
  const auto ranks = static_cast<std::size_t>(kv.ranks());
  plan_.max_blocks = limits.max_blocks;
  plan_.table_rows = (ranks > 1 ? 2 : 1) * limits.max_num_seqs;
  const auto rows = static_cast<std::size_t>(plan_.table_rows);
  rows_.resize(rows);
  shown_.assign(rows * ranks, 0);
  plan_.work.reserve(static_cast<std::size_t>(limits.max_num_seqs));
  plan_.tokens.reserve(tokens);
  plan_.positions.reserve(tokens);
  plan_.next_tokens.reserve(tokens);
  if (ranks > 1) plan_.context_owners.reserve(static_cast<std::size_t>(limits.max_blocks));
  if (limits.shared_table) {
    plan_.shared_table.assign(rows * static_cast<std::size_t>(limits.max_blocks), -1);
    plan_.shared_writes.reserve(rows);
  }
  plan_.views.resize(ranks);
  for (RankView& view : plan_.views) {
    view.slots.reserve(tokens);
    view.visible_rows.reserve(tokens);
    view.block_table.assign(rows * static_cast<std::size_t>(limits.max_blocks), -1);
    view.table_writes.reserve(rows);
  }
}

void PlanWriter::begin(std::vector<std::int32_t>& retired) {
  ++plan_.step;
  rows_used_ = {};
  plan_.retired.clear();
  std::swap(plan_.retired, retired);
  plan_.starts.clear();
  plan_.work.clear();
  plan_.tokens.clear();
  plan_.positions.clear();
  plan_.next_tokens.clear();
  plan_.context_owners.clear();
  plan_.shared_writes.clear();
  for (RankView& view : plan_.views) {
    view.slots.clear();
    view.visible_rows.clear();
    view.table_writes.clear();
  }
  for (auto& mask : plan_.allowed_masks) spare_masks_.push_back(std::move(mask));
  plan_.allowed_masks.clear();
}

void PlanWriter::start(const Sequence& sequence) {
  const auto prompt_end = sequence.tokens.begin() + sequence.prompt_size;
  plan_.starts.push_back({.slot = sequence.slot,
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
    work.context_owners = static_cast<std::int32_t>(plan_.context_owners.size());
    for (std::int32_t i = 0; i < kv_.blocks_for(sequence.computed); ++i) {
      const int owner = kv_.owner(sequence.blocks.ids[static_cast<std::size_t>(i)]);
      plan_.context_owners.push_back(static_cast<std::uint8_t>(owner));
    }
  }
  if (work.samples && sequence.sampling.constraint) work.allowed_mask = add_mask(sequence);
  add_tokens(sequence, work);
  for (std::int32_t rank = 0; rank < kv_.ranks(); ++rank) add_rows_on(rank, sequence);
  write_table_row(work.table_row, sequence);
  plan_.work.push_back(work);
}

SequenceWork PlanWriter::work_of(const Sequence& sequence) const {
  const std::int32_t end = sequence.computed + sequence.planned;
  const std::int32_t last = sequence.size() + sequence.drafts;
  TS_CHECK(sequence.planned > 0 && end <= last, sequence.planned, end, last);
  SequenceWork work{.slot = sequence.slot,
                    .first_token = static_cast<std::int32_t>(plan_.tokens.size()),
                    .count = sequence.planned,
                    .first_position = sequence.computed,
                    .is_decode = sequence.decode_row >= 0,
                    .is_sharded = sequence.blocks.spread == Spread::kSharded,
                    .samples = end >= sequence.size() && sequence.remaining() > 0,
                    .drafts_wanted = sequence.drafts_wanted};
  // Nothing is asked for tokens whose logprobs were handed out before a preemption.
  if (sequence.wants_prompt_logprobs() && end > sequence.prompt_logprobs_given)
    work.prompt_logprobs = *sequence.sampling.prompt_logprobs;
  return work;
}

// The index of a mask of the tokens that the sequence's grammar allows next.
std::int32_t PlanWriter::add_mask(const Sequence& sequence) {
  auto& masks = plan_.allowed_masks;
  masks.emplace_back();
  if (!spare_masks_.empty()) {
    masks.back() = std::move(spare_masks_.back());
    spare_masks_.pop_back();
  }
  masks.back().assign((static_cast<std::size_t>(limits_.vocab) + 63) / 64, 0);
  try {
    sequence.sampling.constraint->allowed(masks.back());
  } catch (const std::exception&) {
    std::ranges::fill(masks.back(), 0);  // no token is allowed: the request fails, and it alone
  }
  return static_cast<std::int32_t>(masks.size()) - 1;
}

void PlanWriter::add_tokens(const Sequence& sequence, const SequenceWork& work) {
  for (std::int32_t position = work.first_position; position < work.first_position + work.count; ++position) {
    const bool is_draft = position >= sequence.size();
    plan_.tokens.push_back(is_draft ? -1 : sequence.tokens[static_cast<std::size_t>(position)]);
    plan_.positions.push_back(position);
    const bool has_logprob = work.prompt_logprobs >= 0 && position >= sequence.prompt_logprobs_given &&
                             position + 1 < sequence.prompt_size;
    plan_.next_tokens.push_back(has_logprob ? sequence.tokens[static_cast<std::size_t>(position) + 1] : -1);
  }
}

// Where the planned tokens' keys go on a rank, and how many of its rows each token sees.
void PlanWriter::add_rows_on(std::int32_t rank, const Sequence& sequence) {
  RankView& view = plan_.views[static_cast<std::size_t>(rank)];
  const std::int32_t size = kv_.block_size();
  const bool is_sharded = sequence.blocks.spread == Spread::kSharded;
  const std::int32_t end = sequence.computed + sequence.planned;
  const std::int32_t first_block = sequence.computed / size;
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
    for (std::int32_t p = std::max(sequence.computed, block * size); p < last; ++p) {
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
    RankView& view = plan_.views[static_cast<std::size_t>(rank)];
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
  if (!plan_.shared_table.empty()) write_shared_row(row, sequence, same);
  shown = {.residence = sequence.residence, .blocks = blocks};
}

void PlanWriter::write_shared_row(std::int32_t row, const Sequence& sequence, bool same) {
  const std::int32_t shown = rows_[static_cast<std::size_t>(row)].blocks;
  const std::int32_t blocks = sequence.blocks.size();
  std::int32_t* entries = plan_.shared_table.data() +
                          static_cast<std::size_t>(row) * static_cast<std::size_t>(limits_.max_blocks);
  const std::int32_t first = same ? shown : 0;
  const std::int32_t last = std::max(blocks, shown);
  for (std::int32_t i = first; i < last; ++i)
    entries[i] = i < blocks ? sequence.blocks.ids[static_cast<std::size_t>(i)].value : -1;
  plan_.shared_writes.push_back({.row = row, .first = first, .count = last - first});
}

}  // namespace tessera

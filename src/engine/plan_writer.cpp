#include "engine/plan_writer.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"

namespace tessera {

PlanWriter::PlanWriter(const Limits& limits) : limits_(limits) {
  const auto seqs = static_cast<std::size_t>(limits.max_num_seqs);
  const auto tokens = static_cast<std::size_t>(limits.max_num_batched_tokens);
  rows_.resize(seqs);
  plan_.max_blocks = limits.max_blocks;
  plan_.block_table.assign(seqs * static_cast<std::size_t>(limits.max_blocks), -1);
  plan_.work.reserve(seqs);
  plan_.table_writes.reserve(seqs);
  plan_.tokens.reserve(tokens);
  plan_.positions.reserve(tokens);
  plan_.slots.reserve(tokens);
  plan_.next_tokens.reserve(tokens);
}

void PlanWriter::begin(std::vector<std::int32_t>& retired) {
  ++plan_.step;
  plan_.retired.clear();
  std::swap(plan_.retired, retired);
  plan_.starts.clear();
  plan_.work.clear();
  plan_.table_writes.clear();
  plan_.tokens.clear();
  plan_.positions.clear();
  plan_.slots.clear();
  plan_.next_tokens.clear();
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
  const auto row = static_cast<std::int32_t>(plan_.work.size());
  TS_CHECK(row < limits_.max_num_seqs, row, limits_.max_num_seqs);
  const std::int32_t first = sequence.computed;
  const std::int32_t end = first + sequence.planned;
  TS_CHECK(sequence.planned > 0 && end <= sequence.size(), sequence.planned, end, sequence.size());

  SequenceWork work{.slot = sequence.slot,
                    .first_token = static_cast<std::int32_t>(plan_.tokens.size()),
                    .count = sequence.planned,
                    .first_position = first,
                    .is_decode = sequence.decode_row >= 0,
                    .samples = end == sequence.size() && sequence.remaining() > 0};
  // Nothing is asked for tokens whose logprobs were handed out before a preemption.
  const std::int32_t first_logprob = sequence.prompt_logprobs_given;
  const bool logprobs = sequence.wants_prompt_logprobs() && end > first_logprob;
  if (logprobs) work.prompt_logprobs = *sequence.sampling.prompt_logprobs;
  if (work.samples && sequence.sampling.constraint) {
    auto& masks = plan_.allowed_masks;
    work.allowed_mask = static_cast<std::int32_t>(masks.size());
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
  }
  plan_.work.push_back(work);

  const std::int32_t size = limits_.block_size;
  for (std::int32_t position = first; position < end; ++position) {
    const BlockId block = sequence.blocks[static_cast<std::size_t>(position / size)];
    plan_.tokens.push_back(sequence.tokens[static_cast<std::size_t>(position)]);
    plan_.positions.push_back(position);
    plan_.slots.push_back(std::int64_t{block.value} * size + position % size);
    const bool has_logprob = logprobs && position >= first_logprob && position + 1 < sequence.prompt_size;
    plan_.next_tokens.push_back(has_logprob ? sequence.tokens[static_cast<std::size_t>(position) + 1] : -1);
  }
  write_table_row(row, sequence);
}

void PlanWriter::write_table_row(std::int32_t row, const Sequence& sequence) {
  Row& shown = rows_[static_cast<std::size_t>(row)];
  const auto blocks = static_cast<std::int32_t>(sequence.blocks.size());
  TS_CHECK(blocks <= limits_.max_blocks, blocks, limits_.max_blocks);
  const bool same = shown.residence == sequence.residence && shown.blocks <= blocks;
  const std::int32_t first = same ? shown.blocks : 0;
  const std::int32_t last = same ? blocks : std::max(shown.blocks, blocks);
  if (first == last) return;
  std::int32_t* entries =
      plan_.block_table.data() + static_cast<std::size_t>(row) * static_cast<std::size_t>(limits_.max_blocks);
  for (std::int32_t i = first; i < last; ++i)
    entries[i] = i < blocks ? sequence.blocks[static_cast<std::size_t>(i)].value : -1;
  plan_.table_writes.push_back({.row = row, .first = first, .count = last - first});
  shown = {.residence = sequence.residence, .blocks = blocks};
}

}  // namespace tessera

#include "engine/staged_context.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {
namespace {

constexpr std::size_t kListAlign = 64;  // bytes

std::size_t aligned(std::size_t bytes) { return (bytes + kListAlign - 1) / kListAlign * kListAlign; }

std::int32_t blocks_of(std::int64_t rows, std::int64_t block_size) {
  return static_cast<std::int32_t>((rows + block_size - 1) / block_size);
}

}  // namespace

void StagedContext::Lists::allocate(Backend& backend, std::size_t bytes) {
  host_.resize(bytes);
  device_ = backend.allocate(bytes);
}

template <class T>
std::span<T> StagedContext::Lists::take(std::size_t count) {
  const std::size_t first = used_;
  used_ += aligned(count * sizeof(T));
  TS_CHECK(used_ <= host_.size(), used_, host_.size());
  return {reinterpret_cast<T*>(host_.data() + first), count};
}

template <class T>
const T* StagedContext::Lists::on_device(std::span<T> taken) const {
  const auto offset = reinterpret_cast<const std::byte*>(taken.data()) - host_.data();
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(device_.get()) + offset);
}

StagedContext::StagedContext(Backend& backend, const KvLayer& like, const Limits& limits) : limits_(limits) {
  const std::int64_t size = like.block_size;
  const std::int32_t longest = blocks_of(limits.positions, size);
  const std::int32_t each = std::min(blocks_of(limits.gather_rows, size), longest);
  own_blocks_ = blocks_of(limits.tokens, size) + static_cast<std::int32_t>(limits.seqs);
  staged_.blocks_each = each;
  staged_.staging = like;
  staged_.staging.blocks = own_blocks_ + limits.ranks * each;
  const std::int64_t block_bytes = size * like.row_bytes;
  pool_ = backend.allocate(static_cast<std::size_t>(staged_.staging.blocks * block_bytes));
  sent_ = backend.allocate(static_cast<std::size_t>(each * block_bytes));
  staged_.staging.data = pool_.get();
  staged_.send = sent_.get();
  staged_.gathered = static_cast<std::byte*>(pool_.get()) + own_blocks_ * block_bytes;

  // A step gathers at most the blocks of one longest sequence, and a round that is full has `each` of them.
  const auto seqs = static_cast<std::size_t>(limits.seqs);
  const auto tokens = static_cast<std::size_t>(limits.tokens);
  most_rounds_ = static_cast<std::size_t>(longest / each) + 1;
  const std::size_t pieces = seqs + most_rounds_;
  const std::size_t own = aligned(tokens * 8) + aligned(tokens * 4) +
                          aligned(seqs * static_cast<std::size_t>(blocks_of(limits.tokens, size)) * 4);
  const std::size_t round_lists = aligned(static_cast<std::size_t>(each) * 4) + aligned(tokens * 4);
  const std::size_t piece_lists = 4 + 2 * kListAlign + static_cast<std::size_t>(limits.ranks * each) * 4;
  lists_.allocate(backend, own + most_rounds_ * round_lists + pieces * piece_lists);
  rounds_.reserve(most_rounds_);
  pieces_.reserve(seqs);
  next_place_.resize(static_cast<std::size_t>(limits.ranks));
}

const StagedPrefill& StagedContext::stage(Backend& backend, const StepPlan& plan,
                                          std::span<const SequenceWork> works, const AttentionBatch& batch) {
  lists_.clear();
  stage_own(works, batch);
  stage_rounds(plan, works);
  staged_.rounds = rounds_;
  lists_.upload(backend);
  return staged_;
}

// The chunk of each sequence from a block of its own on.
void StagedContext::stage_own(std::span<const SequenceWork> works, const AttentionBatch& batch) {
  const std::int32_t size = staged_.staging.block_size;
  const std::int32_t width = blocks_of(batch.max_query, size);
  const auto slots = lists_.take<std::int64_t>(static_cast<std::size_t>(batch.tokens));
  const auto visible = lists_.take<std::int32_t>(static_cast<std::size_t>(batch.tokens));
  const auto table = lists_.take<std::int32_t>(works.size() * static_cast<std::size_t>(width));
  std::size_t token = 0;
  std::int32_t block = 0;
  for (std::size_t w = 0; w < works.size(); ++w) {
    for (std::int32_t i = 0; i < works[w].count; ++i, ++token) {
      slots[token] = std::int64_t{block} * size + i;
      visible[token] = i + 1;
    }
    for (std::int32_t i = 0; i < width; ++i) {
      const bool used = i * size < works[w].count;
      table[w * static_cast<std::size_t>(width) + static_cast<std::size_t>(i)] = used ? block + i : -1;
    }
    block += blocks_of(works[w].count, size);
  }
  TS_CHECK(block <= own_blocks_, block, own_blocks_);
  staged_.own = batch;
  staged_.own.max_blocks = width;
  staged_.own.slots = lists_.on_device(slots);
  staged_.own.visible_rows = lists_.on_device(visible);
  staged_.own.block_table = lists_.on_device(table);
}

void StagedContext::stage_rounds(const StepPlan& plan, std::span<const SequenceWork> works) {
  rounds_.clear();
  pieces_.clear();
  std::ranges::fill(next_place_, 0);
  for (std::size_t w = 0; w < works.size(); ++w) {
    const std::int32_t blocks = blocks_of(works[w].first_position, staged_.staging.block_size);
    // A round's tokens follow each other: one without earlier rows between others sees none.
    if (blocks == 0 && !pieces_.empty()) pieces_.push_back({.work = w, .first = 0, .last = 0});
    for (std::int32_t i = 0; i < blocks; ++i) {
      const std::size_t owner = plan.context_owners[static_cast<std::size_t>(works[w].context_owners + i)];
      TS_CHECK(owner < next_place_.size(), owner, next_place_.size());
      if (next_place_[owner] == staged_.blocks_each) close_round(plan, works);
      ++next_place_[owner];
      if (pieces_.empty() || pieces_.back().work != w) pieces_.push_back({.work = w, .first = i, .last = i});
      ++pieces_.back().last;
    }
  }
  if (!pieces_.empty()) close_round(plan, works);
}

// Writes the lists of the round's pieces: what this rank sends, where everything will lie, who sees it.
void StagedContext::close_round(const StepPlan& plan, std::span<const SequenceWork> works) {
  TS_CHECK(rounds_.size() < most_rounds_, rounds_.size());
  const RankView& mine = plan.views[static_cast<std::size_t>(limits_.rank)];
  const std::int32_t size = staged_.staging.block_size;
  const auto each = static_cast<std::size_t>(staged_.blocks_each);
  std::int32_t width = 0;
  for (const Piece& piece : pieces_) width = std::max(width, piece.last - piece.first);
  const auto send = lists_.take<std::int32_t>(each);
  const auto starts = lists_.take<std::int32_t>(pieces_.size() + 1);
  const auto table = lists_.take<std::int32_t>(pieces_.size() * static_cast<std::size_t>(width));
  std::ranges::fill(send, 0);  // what is sent beyond the round's blocks is not looked at
  std::ranges::fill(table, -1);
  std::ranges::fill(next_place_, 0);

  ContextRound round;
  const SequenceWork& first_work = works[pieces_.front().work];
  round.first_token = first_work.first_token - works.front().first_token;
  const std::int32_t last_token = works[pieces_.back().work].first_token + works[pieces_.back().work].count;
  round.batch.tokens = last_token - first_work.first_token;
  const auto visible = lists_.take<std::int32_t>(static_cast<std::size_t>(round.batch.tokens));
  starts[0] = 0;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Piece& piece = pieces_[p];
    const SequenceWork& work = works[piece.work];
    const std::uint8_t* owners = plan.context_owners.data() + work.context_owners;
    const std::int32_t* row = mine.block_table.data() + static_cast<std::size_t>(work.table_row) *
                                                            static_cast<std::size_t>(plan.max_blocks);
    std::int64_t next_mine =
        std::count(owners, owners + piece.first, static_cast<std::uint8_t>(limits_.rank));
    for (std::int32_t i = piece.first; i < piece.last; ++i) {
      const std::int32_t owner = owners[i];
      const std::int32_t place = next_place_[static_cast<std::size_t>(owner)]++;
      if (owner == limits_.rank) send[static_cast<std::size_t>(place)] = row[next_mine++];
      table[p * static_cast<std::size_t>(width) + static_cast<std::size_t>(i - piece.first)] =
          own_blocks_ + owner * static_cast<std::int32_t>(each) + place;
    }
    const std::int32_t rows = std::min(piece.last * size, work.first_position) - piece.first * size;
    const std::int32_t begin = work.first_token - first_work.first_token;
    std::fill_n(visible.begin() + begin, work.count, rows);
    starts[p + 1] = begin + work.count;
    round.batch.max_query = std::max(round.batch.max_query, work.count);
  }
  round.send = lists_.on_device(send);
  round.batch.seqs = static_cast<std::int32_t>(pieces_.size());
  round.batch.max_blocks = width;
  round.batch.query_start = lists_.on_device(starts);
  round.batch.visible_rows = lists_.on_device(visible);
  round.batch.block_table = lists_.on_device(table);
  rounds_.push_back(round);
  pieces_.clear();
  std::ranges::fill(next_place_, 0);
}

}  // namespace tessera
